#include "shard/layout/part_source.h"

#include <cstring>

#include "base/interrupt.h"
#include "base/status.h"

namespace weft {

absl::Status PartFetch::Wait(int64_t timeout_ns) {
  Deadline patience{timeout_ns > 0 ? timeout_ns : INT64_MAX};
  const WaitResult result = WaitUntil(
      end_, {}, patience, [&] { return ended(); }, [] { return Interrupted(); });
  if (result == WaitResult::kReady) return absl::OkStatus();
  if (result == WaitResult::kStopped) return InterruptedError("weft_work_wait");
  return MakeError(WEFT_IN_PROGRESS, "the part has not been read yet");
}

void PartFetch::Copy(std::byte* to, const std::byte* from, size_t bytes) {
  MutexLock lock(mutex_);
  if (!over_) std::memcpy(to, from, bytes);
}

void PartFetch::End() {
  {
    MutexLock lock(mutex_);
    if (over_) return;
    over_ = true;
  }
  SetEnded();
  NotifyAll(end_);
  RunCallback();
}

}  // namespace weft
