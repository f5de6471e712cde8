// A mutex whose holder, before letting go of it, does what completing threads have asked for meanwhile.
//
//   AnsweringMutex mutex([this] { Poll(); });       // called with the mutex held, by whoever lets go of it
//   {
//     Section section(mutex);
//     ...
//   }
//   mutex.Ask();                                    // by a thread that has completed an operation
//
// A gather whose place was taken until a reduction ended must start when it ends, as the other ranks wait for it. The
// thread that completes the reduction may not wait for the mutex, and may even be the one that holds it, further up its
// stack. So Ask takes the mutex if that is free, and else leaves a flag, which every holder looks at before and after it
// lets go: no question is lost, and nobody waits.
//
// Thread-safety: all of it; Lock is not recursive. The answer must not wait.
#pragma once

#include <atomic>
#include <functional>

#include "base/mutex.h"

namespace weft {

class WEFT_CAPABILITY("mutex") AnsweringMutex {
 public:
  explicit AnsweringMutex(std::function<void()> answer);
  AnsweringMutex(const AnsweringMutex&) = delete;
  AnsweringMutex& operator=(const AnsweringMutex&) = delete;

  void Lock() WEFT_ACQUIRE();
  void Unlock() WEFT_RELEASE();
  // Locks by hand what Unlock lets go of: beyond what the analysis can follow.
  void Ask() WEFT_THREAD_ANNOTATION(no_thread_safety_analysis);

 private:
  const std::function<void()> answer_;
  std::atomic<bool> inside_{false};  // somebody holds mutex_ and will look before letting go
  std::atomic<bool> asked_{false};
  Mutex mutex_;
};

// Holds an AnsweringMutex for a scope.
class WEFT_SCOPED_CAPABILITY Section {
 public:
  explicit Section(AnsweringMutex& mutex) WEFT_ACQUIRE(mutex) : mutex_(mutex) { mutex_.Lock(); }

  ~Section() WEFT_RELEASE() { mutex_.Unlock(); }

  Section(const Section&) = delete;
  Section& operator=(const Section&) = delete;

 private:
  AnsweringMutex& mutex_;
};

}  // namespace weft
