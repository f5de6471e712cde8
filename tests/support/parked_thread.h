// A thread that stops right after it has taken its k-th lock, so that a test can fork just then: the
// child has that lock held by a thread that it has not got.
//
//   for (int k = 1;; ++k) {
//     ParkedThread thread(k, [] { whatever takes locks });
//     if (!thread.parked()) break;   // it takes fewer than k
//     ... fork: the child must come to its end ...
//   }
//
// Counts pthread mutexes and rwlocks, those of shared libraries too: the functions are defined here, in
// the program. Not with sanitizers, which define them themselves. It goes on after kPatienceMs, because
// fork() may rightly wait for it.
#pragma once

#include <functional>
#include <string>
#include <thread>

namespace weft::test {

class ParkedThread {
 public:
  static constexpr int kPatienceMs = 100;

  // Returns when the thread stands still, or has ended.
  ParkedThread(int k, std::function<void()> body);
  ParkedThread(const ParkedThread&) = delete;
  ParkedThread& operator=(const ParkedThread&) = delete;
  // Lets it go on and waits for its end.
  ~ParkedThread();

  bool parked() const { return parked_; }

 private:
  int told_[2];     // by the thread: 'p' for parked, closed at its end
  int release_[2];  // closed to let it go on
  bool parked_ = false;
  std::thread thread_;
};

// What runs when a child ends.
enum class AtEnd { kExitHandlers, kNothing };

// Forks, runs `body` in the child, and returns what it does: "" if all is well; or that the child did not end
// within `seconds` and was killed.
std::string RunForkedChild(double seconds, AtEnd at_end, const std::function<std::string()>& body);

}  // namespace weft::test
