#include "shard/checkpoint/saver.h"

#include <utility>

#include "base/hidden_thread.h"
#include "base/poll_set.h"
#include "base/status.h"
#include "base/wait.h"
#include "shard/checkpoint/rank_writer.h"

namespace weft {
namespace {

constexpr size_t kCopyAlignment = 64;

}  // namespace

class Saver::RealPatience : public Patience {
 public:
  explicit RealPatience(const std::function<bool()>& over) : over_(over) {}

  int64_t NowNs() override { return MonotonicNs(); }

  void PauseUntil(int64_t time_ns) override {
    // Without a set, or once it fails, pauses are none: the files are looked at more often.
    if (set_.Open().ok()) set_.Sleep(set_.rings(), time_ns);
  }

  bool Over() override { return over_(); }

 private:
  const std::function<bool()>& over_;
  PollSet set_;
};

Saver::~Saver() {
  {
    MutexLock lock(mutex_);
    leaving_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

absl::Status Saver::Run(const CheckpointPlace& place, Snapshot snapshot,
                        const SaveSettings& settings) {
  WaitForLast();
  RealPatience patience(over_);
  absl::Status status = RunSave(files_, patience, place, snapshot, settings);
  MutexLock lock(mutex_);
  last_ = status;
  return status;
}

// The thread does nothing meanwhile: nobody else reads the copy.
absl::Status Saver::Copy(Snapshot* snapshot) {
  if (!thread_.joinable()) {
    WEFT_ASSIGN_OR_RETURN(thread_, StartHiddenThread("weft-checkpoint", [this] { Loop(); }));
  }
  if (const size_t bytes = snapshot->copied_bytes(); copy_.bytes() < bytes) {
    copy_ = PrivateMemory();
    WEFT_ASSIGN_OR_RETURN(
        copy_, PrivateMemory::Allocate(bytes, kCopyAlignment, "the copy of a checkpoint's state"));
  }
  snapshot->CopyTo(reinterpret_cast<char*>(copy_.data()));
  return absl::OkStatus();
}

absl::Status Saver::Start(const CheckpointPlace& place, Snapshot snapshot,
                          const SaveSettings& settings) {
  WaitForLast();
  const absl::Status copied = Copy(&snapshot);
  if (!copied.ok()) {
    ReportFailure(files_, place, copied);
    return copied;
  }
  {
    MutexLock lock(mutex_);
    task_ = std::make_unique<Task>(Task{place, std::move(snapshot), settings});
  }
  changed_.notify_all();
  return absl::OkStatus();
}

// It has a deadline of its own.
void Saver::WaitForLast() {
  MutexLock lock(mutex_);
  while (task_ != nullptr)
    lock.Wait(changed_);
}

Saver::Task* Saver::NextTask() {
  MutexLock lock(mutex_);
  while (task_ == nullptr && !leaving_)
    lock.Wait(changed_);
  return task_.get();
}

void Saver::End(const absl::Status& status) {
  {
    MutexLock lock(mutex_);
    last_ = status;
    task_.reset();
  }
  changed_.notify_all();
}

void Saver::Loop() {
  RealPatience patience(over_);
  while (Task* const task = NextTask())
    End(RunSave(files_, patience, task->place, task->snapshot, task->settings));
}

absl::StatusOr<bool> Saver::Ended() {
  if (task_ != nullptr) return false;
  if (!last_.ok()) return last_;
  return true;
}

absl::StatusOr<bool> Saver::Test() {
  MutexLock lock(mutex_);
  return Ended();
}

absl::StatusOr<bool> Saver::WaitUntil(int64_t deadline_ns) {
  MutexLock lock(mutex_);
  while (task_ != nullptr && lock.WaitUntil(changed_, deadline_ns)) {
  }
  return Ended();
}

}  // namespace weft
