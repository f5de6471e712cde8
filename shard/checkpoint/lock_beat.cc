#include "shard/checkpoint/lock_beat.h"

#include <memory>
#include <utility>

#include "base/hidden_thread.h"
#include "base/log.h"
#include "base/status.h"
#include "base/wait.h"
#include "shard/checkpoint/checkpoint_names.h"

namespace weft {

LockBeat::LockBeat(Files& files, std::string root, uint64_t token)
    : files_(files), root_(std::move(root)), token_(token) {}

LockBeat::~LockBeat() {
  {
    MutexLock lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  // Best effort: whoever takes the lock next removes it too.
  if (beats_ > 0) (void)files_.Remove(JoinPath(root_, LockBeatName(token_, beats_)));
}

absl::Status LockBeat::Start() {
  absl::StatusOr<std::thread> thread = StartHiddenThread(
      "weft-lock", [this] { Loop(); }, ThreadPriority::kAsStarter);
  WEFT_RETURN_IF_ERROR(thread.status());
  thread_ = *std::move(thread);
  return absl::OkStatus();
}

void LockBeat::Beat() {
  const std::string next = JoinPath(root_, LockBeatName(token_, beats_ + 1));
  absl::Status beaten = absl::NotFoundError("");
  if (beats_ > 0) beaten = files_.Rename(JoinPath(root_, LockBeatName(token_, beats_)), next);
  if (absl::IsNotFound(beaten)) {
    const absl::StatusOr<std::unique_ptr<WritableFile>> file = files_.Create(next, 0);
    beaten = file.ok() ? (*file)->Close() : file.status();
  }
  // Such a file is there if an earlier change of the name was said to have failed, and did not.
  if (beaten.ok() || absl::IsAlreadyExists(beaten)) {
    ++beats_;
  } else {
    LogDebug("checkpoint: the sign that this job still saves was not given: ",
             FromAbsl(beaten.message()));
  }
}

bool LockBeat::IsOverBy(int64_t time_ns) {
  MutexLock lock(mutex_);
  while (!over_ && MonotonicNs() < time_ns)
    (void)lock.WaitUntil(changed_, time_ns);
  return over_;
}

void LockBeat::Loop() {
  while (!IsOverBy(MonotonicNs() + kLockBeatNs))
    Beat();
}

}  // namespace weft
