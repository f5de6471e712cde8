#include "shard/optimizer/state_holds.h"

#include <algorithm>
#include <set>

#include "base/interrupt.h"
#include "base/later.h"
#include "base/mutex.h"
#include "base/status.h"
#include "base/wait.h"

namespace weft {
namespace {

constexpr int64_t kLookNs = 100'000'000;

}  // namespace

struct StateHolds::Shared {
  Mutex mutex;
  std::condition_variable changed;
  std::multiset<int64_t> until_ns WEFT_GUARDED_BY(mutex);
};

StateHolds::StateHolds() : shared_(std::make_shared<Shared>()) {}

std::shared_ptr<const void> StateHolds::Take(int64_t until_ns) {
  {
    MutexLock lock(shared_->mutex);
    shared_->until_ns.insert(until_ns);
  }
  return {static_cast<const void*>(this), [shared = shared_, until_ns](const void*) {
            MutexLock lock(shared->mutex);
            shared->until_ns.erase(shared->until_ns.find(until_ns));
            shared->changed.notify_all();
          }};
}

absl::Status StateHolds::AwaitNone(absl::FunctionRef<absl::Status()> look) {
  for (;;) {
    {
      MutexLock lock(shared_->mutex);
      if (shared_->until_ns.empty()) return absl::OkStatus();
      const int64_t until_ns = *shared_->until_ns.rbegin();
      const int64_t now_ns = MonotonicNs();
      if (now_ns >= until_ns) {
        return MakeError(WEFT_TIMEOUT,
                         "a checkpoint that is saved in the background has not read this state "
                         "within the timeout of the checkpoint; is its disk in order, or is "
                         "timeout_ns of weft_checkpoint_config_t too short for it?");
      }
      lock.WaitUntil(shared_->changed,
                     std::min(until_ns, Later(now_ns, UntilInterruptNs(kLookNs))));
    }
    WEFT_RETURN_IF_ERROR(CheckInterrupt("waiting for a checkpoint to have read this state"));
    WEFT_RETURN_IF_ERROR(look());
  }
}

}  // namespace weft
