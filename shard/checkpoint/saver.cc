#include "shard/checkpoint/saver.h"

#include <string>
#include <utility>

#include "base/hidden_thread.h"
#include "base/interrupt.h"
#include "base/status.h"
#include "base/wait.h"
#include "shard/checkpoint/safetensors.h"

namespace weft {

Saver::~Saver() {
  WaitForLast();
}

absl::Status Saver::Run(const CheckpointPlace& place, Snapshot snapshot,
                        const SaveSettings& settings) {
  WaitForLast();
  SystemPatience patience(over_);
  absl::Status status = RunSave(files_, patience, place, snapshot, settings);
  MutexLock lock(mutex_);
  last_ = status;
  return status;
}

// There is no thread meanwhile: nobody else reads the copy.
absl::Status Saver::Copy(Snapshot* snapshot) {
  // In the file the bytes follow the header: they lie in memory as far from the beginning of a block as there, to be written from where they are.
  constexpr size_t kBlockBytes = WritableFile::kBlockBytes;
  WEFT_ASSIGN_OR_RETURN(const std::string header, SafetensorsHeader(snapshot->entries));
  if (const size_t bytes = snapshot->copied_bytes() + kBlockBytes; copy_.bytes() < bytes) {
    copy_ = PrivateMemory();
    WEFT_ASSIGN_OR_RETURN(
        copy_, PrivateMemory::Allocate(bytes, kBlockBytes, "the copy of a checkpoint's state"));
  }
  snapshot->CopyTo(reinterpret_cast<char*>(copy_.data()) + header.size() % kBlockBytes);
  return absl::OkStatus();
}

absl::Status Saver::StartThread(Task task) {
  const ThreadPriority priority =
      task.snapshot.holds.empty() ? ThreadPriority::kLow : ThreadPriority::kAsStarter;
  {
    MutexLock lock(mutex_);
    busy_ = true;
  }
  absl::StatusOr<std::thread> thread = StartHiddenThread(
      "weft-checkpoint", [this, task = std::move(task)]() mutable { Do(std::move(task)); },
      priority);
  if (thread.ok()) {
    thread_ = *std::move(thread);
    return absl::OkStatus();
  }
  MutexLock lock(mutex_);
  busy_ = false;
  return thread.status();
}

absl::Status Saver::Start(const CheckpointPlace& place, Snapshot snapshot,
                          const SaveSettings& settings) {
  WaitForLast();
  absl::Status started = Copy(&snapshot);
  if (started.ok()) started = StartThread({place, std::move(snapshot), settings});
  if (!started.ok()) TellFailure(files_, place, settings, started);
  return started;
}

// It has a deadline of its own.
void Saver::WaitForLast() {
  if (thread_.joinable()) thread_.join();
}

void Saver::Do(Task task) {
  SystemPatience patience(over_);
  const absl::Status status = RunSave(files_, patience, task.place, task.snapshot, task.settings);
  // Whoever knows that it has ended may change the state, also if it has failed.
  task.snapshot.holds.clear();
  {
    MutexLock lock(mutex_);
    last_ = status;
    busy_ = false;
  }
  changed_.notify_all();
}

absl::StatusOr<bool> Saver::Ended() {
  if (busy_) return false;
  if (!last_.ok()) return last_;
  return true;
}

absl::StatusOr<bool> Saver::Test() {
  MutexLock lock(mutex_);
  return Ended();
}

absl::StatusOr<bool> Saver::WaitUntil(int64_t deadline_ns) {
  MutexLock lock(mutex_);
  while (busy_) {
    const int64_t now_ns = MonotonicNs();
    if (now_ns >= deadline_ns) break;
    WEFT_RETURN_IF_ERROR(CheckInterrupt("waiting for the save to end"));
    (void)lock.WaitUntil(changed_, now_ns + UntilInterruptNs(deadline_ns - now_ns));
  }
  return Ended();
}

}  // namespace weft
