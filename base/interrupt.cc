#include "base/interrupt.h"

#include <algorithm>
#include <utility>

#include "base/per_thread.h"
#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"

namespace weft {
namespace {

struct ThreadInterrupt {
  Interrupt set;
  int64_t asked_ns = 0;
  bool interrupted = false;
};

}  // namespace

void SetInterrupt(const Interrupt& interrupt) {
  if (interrupt.check == nullptr && PerThread<ThreadInterrupt>::Find() == nullptr) return;
  PerThread<ThreadInterrupt>::Get() = {.set = interrupt};
}

bool Interrupted() {
  ThreadInterrupt* const thread = PerThread<ThreadInterrupt>::Find();
  if (thread == nullptr || thread->set.check == nullptr) return false;
  if (thread->interrupted) return true;
  const int64_t now_ns = MonotonicNs();
  if (now_ns - thread->asked_ns < thread->set.every_ns) return false;
  thread->asked_ns = now_ns;
  thread->interrupted = thread->set.check(thread->set.user) != 0;
  return thread->interrupted;
}

bool TakeInterrupt() {
  ThreadInterrupt* const thread = PerThread<ThreadInterrupt>::Find();
  return thread != nullptr && std::exchange(thread->interrupted, false);
}

UninterruptedWaits::UninterruptedWaits() {
  ThreadInterrupt* const thread = PerThread<ThreadInterrupt>::Find();
  if (thread != nullptr) suspended_ = std::exchange(thread->set, {});
}

UninterruptedWaits::~UninterruptedWaits() {
  if (suspended_.check != nullptr) PerThread<ThreadInterrupt>::Get().set = suspended_;
}

int64_t UntilInterruptNs(int64_t left_ns) {
  ThreadInterrupt* const thread = PerThread<ThreadInterrupt>::Find();
  if (thread == nullptr || thread->set.check == nullptr) return left_ns;
  return std::min(left_ns, std::max<int64_t>(thread->set.every_ns, 1'000'000));
}

absl::Status InterruptedError(std::string_view what) {
  return MakeError(WEFT_INTERRUPTED,
                   StrCat(what, ": interrupted by this thread's check (weft_set_interrupt)"));
}

absl::Status CheckInterrupt(std::string_view what) {
  return Interrupted() && TakeInterrupt() ? InterruptedError(what) : absl::OkStatus();
}

absl::Status AsInterrupted(const absl::Status& failure) {
  return MakeError(WEFT_INTERRUPTED, FieldsOf(failure), FromAbsl(failure.message()));
}

}  // namespace weft
