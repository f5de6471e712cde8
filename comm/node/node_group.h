// The process group of ranks that share a node.
//
// A blocking call with nothing before it runs its Operation on the caller's stack: no allocation, no
// lock, no system call unless it has to wait long. Otherwise the operation is queued as a NodeWork and
// stepped by whoever waits or tests, or by the process's progress thread.
//
// Words: `issue_` orders callers; `step_` guards NodeState and the queue's front. Both are taken by one
// compare-and-swap; a loser waits in base/wait. Callbacks run with neither held.
// Thread-safety: all public members, any thread. Owns no thread; hands itself to Progress while
// operations are queued.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/wait.h"
#include "comm/group/process_group.h"
#include "comm/node/failure.h"
#include "comm/node/failure_dump.h"
#include "comm/node/node_state.h"
#include "comm/node/operation.h"

namespace weft {

class NodeWork;

class NodeGroup : public ProcessGroup, public std::enable_shared_from_this<NodeGroup> {
 public:
  // What a rank knows when it joins; `state` has its constants set. The segment belongs to rank 0's
  // heap; rank 0 gives it back when all have left.
  NodeGroup(NodeState state, GroupOptions options);
  ~NodeGroup() override;

  int rank() const override { return state_.rank; }

  int size() const override { return state_.size; }

  const std::string& name() const override { return options_.name; }

  absl::Status Run(const Collective& collective) override;
  absl::StatusOr<WorkRef> Start(const Collective& collective) override;
  absl::StatusOr<std::shared_ptr<ProcessGroup>> Split(int color, int key,
                                                      const GroupOptions& options) override;
  absl::Status error() override;
  void Abort(std::string_view reason) override;
  void Close() override;

  // For Progress and works.
  // Steps queued operations unless somebody else does. True if some are still queued; then *target is
  // what the oldest one waits for, or empty if another thread steps.
  bool TryStep(WaitTarget* target);
  // Waits until it makes sense to step again, or *done is set; false at the deadline.
  bool WaitForTurn(const WaitTarget& target, Deadline& deadline, const std::atomic<uint32_t>& done);

  bool has_queued() const { return queued_.load(std::memory_order_seq_cst) > 0; }

  void RingLocal() { Ring(local_); }

 private:
  using Ended = std::vector<std::shared_ptr<NodeWork>>;

  // One blocking operation; issue_ and step_ are held.
  absl::Status RunNow(const Collective& call, int64_t timeout_ns);
  absl::Status TakeTurn(const Collective& call, Deadline& turn);
  std::shared_ptr<NodeWork> Enqueue(const Collective& call);
  // Why no operation may start, or Ok.
  absl::Status Refusal();
  absl::Status Closed() const;
  bool Enter();
  void Leave();
  bool Acquire(std::atomic<uint32_t>& word, Deadline& deadline);
  void Release(std::atomic<uint32_t>& word);
  void Record(const Operation& operation) const;
  int64_t TimeoutOf(const Collective& call) const;

  // Waits for operation.target(); false if the operation must end, then the group has failed.
  bool AwaitTarget(const Operation& operation, Deadline& deadline);
  // True if waiting for `target` is pointless: the group has ended, or that peer has. Looks at
  // processes every few milliseconds.
  bool Hopeless(const Operation& operation, const WaitTarget& target);
  // What to return for an operation that was stepped to its end.
  absl::Status Conclude(const Operation& operation, Operation::Result result);
  // Steps the queue; step_ is held.
  bool StepQueue(Ended* ended, WaitTarget* target);
  void IssueAhead();
  std::shared_ptr<NodeWork> Front();
  void PopFront();
  std::string Disengage(const Operation& operation);

  NodeState state_;
  const GroupOptions options_;
  const uint32_t fork_generation_;
  const WaitPolicy policy_;
  FailureReporter failures_;
  FailureDump dump_;

  Bell local_;  // rung when step_ or issue_ is let go, and when a work ends
  std::atomic<uint32_t> issue_{0};
  std::atomic<uint32_t> step_{0};
  uint64_t issued_ = 0;                 // last sequence number given out; guarded by issue_
  std::atomic<bool> closed_{false};     // takes no operations
  std::atomic<bool> gone_{false};       // the segment may be freed; nobody may step or wait
  std::atomic<uint32_t> visitors_{0};   // threads that step or wait for queued operations
  std::atomic<bool> reported_{false};   // the first failure was returned to somebody
  std::atomic<int64_t> checked_ns_{0};  // when peers' processes were last looked at

  std::atomic<uint32_t> queued_{0};  // size of queue_
  Mutex queue_mutex_;
  std::deque<std::shared_ptr<NodeWork>> queue_ WEFT_GUARDED_BY(queue_mutex_);
};

}  // namespace weft
