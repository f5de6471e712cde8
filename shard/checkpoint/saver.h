// Carries out saves, one at a time: on the calling thread, or behind its back on a thread of weft's own with a copy of the bytes.
// That thread is of low priority, so that it takes little from those that compute; not if state is held, as the next update waits for it then.
//
//   Saver saver(files, [&] { return !group.error().ok(); });
//   WEFT_RETURN_IF_ERROR(saver.Run(place, std::move(snapshot), settings));             // until it is committed
//   WEFT_RETURN_IF_ERROR(saver.Start(place, std::move(snapshot), settings));           // until the bytes are copied
//   ... train ...
//   WEFT_ASSIGN_OR_RETURN(const bool ended, saver.Test());
//
// Thread-safety: Start, Run, Test and Wait from one thread at a time. Each Start starts a thread, as one whose priority was lowered stays low; the
// next save joins it, or the destructor, which waits until the save has ended, at its deadline at the latest. It reads its copy and what is held,
// touches files, and asks whether it is worth waiting.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/allocator.h"
#include "base/files.h"
#include "base/mutex.h"
#include "shard/checkpoint/save_run.h"

namespace weft {

class Saver {
 public:
  // `files` outlives it. `over`: why other ranks will not write any more, Ok while they may. Then a save ends as soon as this rank's part is written. It is
  // asked while a save waits for them, on whichever thread does.
  Saver(Files& files, std::function<absl::Status()> over) : files_(files), over_(std::move(over)) {}

  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;
  ~Saver();

  // Waits for an earlier save to end. Returns when the checkpoint is committed, or why it is not.
  absl::Status Run(const CheckpointPlace& place, Snapshot snapshot, const SaveSettings& settings);

  // Waits for an earlier save to end, copies the bytes that are not held, and returns; what becomes of it Test() and Wait() say. OUT_OF_MEMORY if
  // there is no room for the copy, which is kept for later saves; the other ranks are told of an error.
  absl::Status Start(const CheckpointPlace& place, Snapshot snapshot, const SaveSettings& settings);

  // False while the last save is under way; true if it has ended well, or there was none; else why it has not.
  absl::StatusOr<bool> Test();
  // As Test(), but waits until then: false if it was still under way at the deadline. INTERRUPTED as this thread's check says; the save goes on.
  absl::StatusOr<bool> WaitUntil(int64_t deadline_ns);

 private:
  struct Task {
    CheckpointPlace place;
    Snapshot snapshot;
    SaveSettings settings;
  };

  absl::Status Copy(Snapshot* snapshot);
  absl::Status StartThread(Task task);
  void WaitForLast();
  void Do(Task task);
  absl::StatusOr<bool> Ended() WEFT_REQUIRES(mutex_);

  Files& files_;
  const std::function<absl::Status()> over_;
  PrivateMemory copy_;  // what the thread reads while it is busy
  std::thread thread_;  // of the last Start
  Mutex mutex_;
  std::condition_variable changed_;
  bool busy_ WEFT_GUARDED_BY(mutex_) = false;  // the thread
  absl::Status last_ WEFT_GUARDED_BY(mutex_);  // how the last one ended
};

}  // namespace weft
