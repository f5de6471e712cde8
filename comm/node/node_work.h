// An operation in a NodeGroup's queue.
//
// Made before the operation has a place in the group's sequence, since what can fail comes before that.
// Thread-safety: the operation and deadline are stepped under the group's step lock; the rest as in
// Work. Pins the heap blocks of its buffers until it has ended, or is given up without having begun.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "base/wait.h"
#include "comm/node/group_work.h"
#include "comm/node/operation.h"

namespace weft {

class NodeWork : public GroupWork {
 public:
  NodeWork(std::shared_ptr<NodeGroup> group, const PreparedCall& prepared, int64_t timeout_ns);
  ~NodeWork() override;

  absl::Status Wait(int64_t timeout_ns) override;

  uint64_t sequence() const override { return sequence_.load(std::memory_order_relaxed); }

  // For the group. The operation gets its place among those of the group.
  void Begin(uint64_t sequence, NodeState& state) {
    operation_.emplace(prepared_, sequence, state);
    sequence_.store(sequence, std::memory_order_relaxed);
  }

  // Sets the status; the operation's buffers are the caller's again after End().
  void SetStatus(absl::Status status) { status_ = std::move(status); }

  // Wakes waiters. RunCallback() follows, with no lock held.
  void End();

  const Collective& call() const { return prepared_.call; }

  // After Begin().
  Operation& operation() { return *operation_; }

  // Begins when the operation is first found to take long, or is pending when another one is.
  Deadline& deadline() { return deadline_; }

  // The links of the list that the work is in (work_queue.h), which holds it by `self`.
  NodeWork* next = nullptr;
  std::shared_ptr<NodeWork> self;

 private:
  // Every pointer that the caller gave.
  template <typename Visit>
  void ForEachBuffer(Visit&& visit) const;

  const PreparedCall prepared_;
  std::optional<Operation> operation_;
  std::atomic<uint64_t> sequence_{0};  // that of operation_, for whoever asks meanwhile
  Deadline deadline_;
};

}  // namespace weft
