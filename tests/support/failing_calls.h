// Makes the k-th system call of a test fail, or end or delay its process, through the linker's --wrap: the code
// under test is the shipped code.
//
//   for (int k = 1;; ++k) {
//     FailingCalls failing(k);
//     ... whatever happens must be Ok or a status ...
//     if (!failing.struck()) break;   // there are fewer than k calls
//   }
//
// Link weft_test_failing_calls, or weft_test_failing_file_calls, which has the calls that write files durably too: fsync,
// rename, unlink, close and those of directories. Calls count while the object lives: those of the creating thread, or of all.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace weft::test {

enum class CallsOf {
  kThisThread,
  kProcess,  // all threads, also those that are started later; one plan at a time
};

class FailingCalls {
 public:
  // With `error_number`, or 0: with one that is usual for the call.
  explicit FailingCalls(int k, int error_number = 0, CallsOf calls = CallsOf::kThisThread);
  FailingCalls(const FailingCalls&) = delete;
  FailingCalls& operator=(const FailingCalls&) = delete;
  ~FailingCalls();

  // The k-th call has come, and failed.
  bool struck() const;
  // "connect failed with ENOMEM", for messages.
  std::string what() const;

 private:
  const CallsOf calls_;
};

// From now on the k-th call of this thread, or of all of them, kills the process.
void DieAtCall(int k, CallsOf calls = CallsOf::kThisThread);

// Delays the first call of that name in this thread, once.
void DelayCall(const char* name, int64_t delay_ns);

// The same, and then it fails.
void FailCallLate(const char* name, int64_t delay_ns);

// At the first call of that name in this thread, once: runs `meanwhile`, then makes the call, or lets
// it fail.
enum class ThenCall { kIsMade, kFails };
void BeforeCall(const char* name, std::function<void()> meanwhile, ThenCall then);

}  // namespace weft::test
