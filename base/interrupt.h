// Ends the waits of one thread from outside: for languages whose signal handlers run between calls only.
//
//   SetInterrupt({.check = Check, .user = this, .every_ns = 100'000'000});
//   ...
//   WaitUntil(events, policy, deadline, ready, [&] { return Interrupted() || state.aborted(); });
//   if (TakeInterrupt()) return InterruptedError("all_reduce on group dp");
//
// Waits ask when they have stopped spinning, so an interrupt costs short waits nothing.
//
// Thread-safety: each thread has its own.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"

namespace weft {

struct Interrupt {
  int (*check)(void* user) = nullptr;  // anything but 0: the wait shall end
  void* user = nullptr;
  int64_t every_ns = 0;
};

// This thread's from now on; without a check, none.
void SetInterrupt(const Interrupt& interrupt);

// Asks the check if `every_ns` have passed since it was asked. True once it has said so, until TakeInterrupt.
bool Interrupted();

// True, once, if Interrupted() was. For who tells the program: those between may ask Interrupted() again.
bool TakeInterrupt();

// While it lives this thread's waits are not interrupted: what they wait for uses memory that is about to go.
class UninterruptedWaits {
 public:
  UninterruptedWaits();
  UninterruptedWaits(const UninterruptedWaits&) = delete;
  UninterruptedWaits& operator=(const UninterruptedWaits&) = delete;
  ~UninterruptedWaits();

 private:
  Interrupt suspended_;
};

// How long a wait of `left_ns` may sleep at a time so that the check is asked in time.
int64_t UntilInterruptNs(int64_t left_ns);

// INTERRUPTED: "`what`: interrupted ...".
absl::Status InterruptedError(std::string_view what);

// InterruptedError(what) if the check says so now, which is then taken; else Ok.
absl::Status CheckInterrupt(std::string_view what);

// A failure that an interrupt of this thread has brought about: its sentence and fields, as INTERRUPTED.
absl::Status AsInterrupted(const absl::Status& failure);

}  // namespace weft
