// Makes the k-th system call of a test fail, or end or delay its process, through the linker's --wrap: the code
// under test is the shipped code.
//
//   for (int k = 1;; ++k) {
//     FailingCalls failing(k);
//     ... whatever happens must be Ok or a status ...
//     if (!failing.struck()) break;   // there are fewer than k calls
//   }
//
// Link weft_test_failing_calls. Counts the calls of the creating thread only, while the object lives.
#pragma once

#include <cstdint>
#include <string>

namespace weft::test {

class FailingCalls {
 public:
  explicit FailingCalls(int k);
  FailingCalls(const FailingCalls&) = delete;
  FailingCalls& operator=(const FailingCalls&) = delete;
  ~FailingCalls();

  // The k-th call has come, and failed.
  bool struck() const;
  // "connect failed with ENOMEM", for messages.
  std::string what() const;
};

// From now on the k-th call of this thread kills the process.
void DieAtCall(int k);

// Delays the first call of that name in this thread, once.
void DelayCall(const char* name, int64_t delay_ns);

// The same, and then it fails.
void FailCallLate(const char* name, int64_t delay_ns);

}  // namespace weft::test
