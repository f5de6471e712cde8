#include "shard/optimizer/state_holds.h"

#include "base/later.h"
#include "base/mutex.h"
#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"

namespace weft {

struct StateHolds::Shared {
  Mutex mutex;
  std::condition_variable none;
  int count WEFT_GUARDED_BY(mutex) = 0;
};

StateHolds::StateHolds() : shared_(std::make_shared<Shared>()) {}

std::shared_ptr<const void> StateHolds::Take() {
  {
    MutexLock lock(shared_->mutex);
    ++shared_->count;
  }
  return {static_cast<const void*>(this), [shared = shared_](const void*) {
            MutexLock lock(shared->mutex);
            if (--shared->count == 0) shared->none.notify_all();
          }};
}

absl::Status StateHolds::AwaitNone(int64_t timeout_ns) {
  const int64_t deadline_ns = Later(MonotonicNs(), timeout_ns);
  MutexLock lock(shared_->mutex);
  while (shared_->count > 0) {
    if (lock.WaitUntil(shared_->none, deadline_ns) || shared_->count == 0) continue;
    return MakeError(WEFT_TIMEOUT,
                     StrCat("the state before this update was still being read after ",
                            timeout_ns / 1'000'000'000,
                            " s, by a checkpoint that is saved in the background; is its disk in "
                            "order?"));
  }
  return absl::OkStatus();
}

}  // namespace weft
