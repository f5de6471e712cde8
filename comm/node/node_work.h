// An operation in a NodeGroup's queue.
//
// Made before the operation has a place in the group's sequence, since what can fail comes before that.
// Thread-safety: the operation and deadline are stepped under the group's step word; the rest as in
// Work. Pins the heap blocks of its buffers until it has ended, or is given up without having begun.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "base/wait.h"
#include "comm/group/work.h"
#include "comm/node/operation.h"

namespace weft {

class NodeGroup;

class NodeWork : public Work {
 public:
  NodeWork(std::shared_ptr<NodeGroup> group, const PreparedCall& prepared, int64_t timeout_ns);
  ~NodeWork() override;

  bool Test() override;
  absl::Status Wait(int64_t timeout_ns) override;

  bool ended() const override { return ended_.load(std::memory_order_seq_cst) == kEnded; }

  uint64_t sequence() const override { return sequence_.load(std::memory_order_relaxed); }

  absl::Status status() override;
  bool OnComplete(std::function<void(const absl::Status&)> callback) override;

  // For the group. The operation gets its place among those of the group.
  void Begin(uint64_t sequence, NodeState& state) {
    operation_.emplace(prepared_, sequence, state);
    sequence_.store(sequence, std::memory_order_relaxed);
  }

  // Sets the status; the operation's buffers are the caller's again after End().
  void SetStatus(absl::Status status) { status_ = std::move(status); }

  // Tells waiters; with no word held.
  void End();

  // After End(): runs the callback that was set before it, if any.
  void RunCallback();

  const Collective& call() const { return prepared_.call; }

  // After Begin().
  Operation& operation() { return *operation_; }

  // Begins when the operation is first found to take long, or is pending when another one is.
  Deadline& deadline() { return deadline_; }

  // Of the list that the work is in (work_queue.h), which holds it by `self`.
  NodeWork* next = nullptr;
  std::shared_ptr<NodeWork> self;

 private:
  static constexpr uint32_t kUnderWay = 0;
  static constexpr uint32_t kHasCallback = 1;  // under way
  static constexpr uint32_t kEnded = 2;

  // Every pointer that the caller gave.
  template <typename Visit>
  void ForEachBuffer(Visit&& visit) const;

  const std::shared_ptr<NodeGroup> group_;
  const PreparedCall prepared_;
  std::optional<Operation> operation_;
  std::atomic<uint64_t> sequence_{0};  // that of operation_, for whoever asks meanwhile
  Deadline deadline_;
  absl::Status status_;  // written before kEnded is
  std::atomic<uint32_t> ended_{kUnderWay};
  bool owes_callback_ = false;  // of whoever ended it
  Mutex mutex_;
  bool has_callback_ WEFT_GUARDED_BY(mutex_) = false;
  std::function<void(const absl::Status&)> callback_ WEFT_GUARDED_BY(mutex_);
};

}  // namespace weft
