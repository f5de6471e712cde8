// Operations that no caller waits for inside the call that started them: starting, stepping and awaiting them, and the two
// locks that order this.
//
//   if (!queue.issue().TryAcquire()) ...
//   const OperationQueue::Launched launched = queue.Launch(work);    // an operation begins
//   if (!queue.TryReleaseIssue()) queue.IssueLeft();
//   queue.FollowUp(work, launched);
//   ...
//   queue.Await(*work, timeout_ns);         // steps, and waits in between
//
// Locks: the issue lock orders callers, the step lock those who step. Both are acquired by one compare-and-swap; a loser
// waits in base/wait, but for a start, which never does: it leaves its operation to the holder of the issue lock
// (issue_lock.h). Callbacks run with neither held. NodeState and what an operation changes belong to the step lock while an
// operation is queued, and to the issue lock while none is. Only under the issue lock is one added, and a stepper that finds
// none touches nothing; so a blocking call, or a start, that holds the issue lock and has found the queue empty needs no
// second lock.
//
// Steps messages too (message_engine.h), which are queued elsewhere: for whoever waits, and for the progress thread, a group is
// one thing.
// Thread-safety: any thread, unless a lock is required. Owns no thread; hands itself to Progress while operations are queued.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "base/wait.h"
#include "base/word_lock.h"
#include "comm/group/progress.h"
#include "comm/group/stepped.h"
#include "comm/node/gate.h"
#include "comm/node/group_counters.h"
#include "comm/node/issue_lock.h"
#include "comm/node/message_engine.h"
#include "comm/node/node_state.h"
#include "comm/node/node_work.h"
#include "comm/node/operation.h"
#include "comm/node/operation_driver.h"
#include "comm/node/work_queue.h"

namespace weft {

class NodeGroup;

class OperationQueue : public Stepped {
 public:
  // All but `policy` outlive the queue, and are used by its functions only; `group` keeps it alive.
  OperationQueue(NodeGroup& group, NodeState& state, GroupCounters& counters,
                 MessageEngine& messages, OperationDriver& driver, const WaitPolicy& policy);

  IssueLock& issue() WEFT_RETURN_CAPABILITY(issue_) { return issue_; }

  // Acquires the issue lock; false at the deadline.
  bool AcquireIssue(Deadline& deadline) WEFT_TRY_ACQUIRE(true, issue_);

  // For a start that found the issue lock held and must not wait. False if somebody still holds it; then *left says
  // whether that thread issues the operation. If not, the group was closed.
  bool AcquireOrLeave(const std::shared_ptr<NodeWork>& work, bool* left)
      WEFT_TRY_ACQUIRE(true, issue_);

  // Releases the issue lock, unless others have started operations meanwhile: then IssueLeft() releases it. (Clang knows no
  // attempt to release, so who holds the lock for a scope is annotated: NodeGroup::Turn.)
  bool TryReleaseIssue() {
    if (!issue_.TryRelease()) [[unlikely]] {
      return false;
    }
    NotifyAll(woken_);
    return true;
  }

  // Issues what was left, and releases the issue lock.
  void IssueLeft() WEFT_RELEASE(issue_) WEFT_NO_THREAD_SAFETY_ANALYSIS;

  // Sees to it that operations are moved on though nobody waits for them. Called before one is started, since nothing may
  // fail afterwards.
  absl::Status PrepareProgress();

  bool prepared_for_progress() const {
    return prepared_for_progress_.load(std::memory_order_acquire);
  }

  // Progress shall look at the group now, or soon.
  void AskForProgress(Asking asking);

  // Issues the operation, behind all that are queued.
  void Add(const std::shared_ptr<NodeWork>& work) WEFT_REQUIRES(issue_);

  // Starts an operation. With nothing before it, and so nobody who steps, it goes as far as it can at once. FollowUp()
  // does what may not be done with the issue lock held, and follows when that is released.
  enum class Launched : uint8_t { kEnded, kUnderWay, kQueued, kInBackground };
  Launched Launch(const std::shared_ptr<NodeWork>& work) WEFT_REQUIRES(issue_);
  void FollowUp(const std::shared_ptr<NodeWork>& work, Launched launched) WEFT_EXCLUDES(issue_);

  // Steps until `work` has ended, and waits in between. False if that took longer than timeout_ns; 0 means no limit.
  bool Await(const NodeWork& work, int64_t timeout_ns);

  // For Close(): keeps the issue lock for ever, so that nothing is issued from now on. False at the deadline; else *any says
  // whether operations had been left to be issued, which are queued now.
  bool Seal(Deadline& deadline, bool* any) WEFT_NO_THREAD_SAFETY_ANALYSIS;

  // Operations that were issued and have not ended.
  bool has_operations() const { return works_.size() > 0; }

  // Those that were left to the holder of the issue lock.
  uint32_t left() const { return left_.load(std::memory_order_seq_cst); }

  // Somebody steps at this moment.
  bool stepping() const { return step_.held(); }

  // Threads of this process sleep on it until a lock is released, what was left is issued, a work ends, a visitor leaves, or
  // the group ends.
  EventCount& woken() { return woken_; }

  Gate& gate() const { return gate_; }

  Attendance Look() override;
  bool TryStep(WaitTarget* target) override;
  bool Help(WaitTarget* target) override;

  bool WaitFor(const WaitTarget& target, Deadline& deadline) override {
    return WaitForTurn(target, policy_, deadline, nullptr);
  }

  int32_t QueuedPriority() override;

  uint32_t queued() const override { return works_.size() + left() + messages_.works(); }

  void SetAskedForProgress(bool asked) override {
    asked_for_progress_.store(asked, std::memory_order_seq_cst);
  }

 private:
  // What somebody steps the queue for. While the front is blocked it is probed `probes` times, until `work` has
  // ended. `starts`: deadlines and peers are left to others to look at.
  struct StepFor {
    const NodeWork* work = nullptr;
    uint32_t probes = 0;
    bool starts = false;
  };

  // The progress thread steps until it has ended.
  bool InBackground(const NodeWork& work) const {
    return work.call().background && !caller_drives_;
  }

  void Begin(NodeWork& work) WEFT_REQUIRES(issue_);
  bool QueueLeft(NodeWork* left) WEFT_REQUIRES(issue_);
  void AskAfterStart(bool background);
  void WakeAfterStart();
  // Steps the queue unless somebody else does; returns what its front waits for, if it does.
  WaitTarget Step(const StepFor& purpose);
  bool StepWorks(StepFor purpose, EndedWorks* ended, WaitTarget* target) WEFT_REQUIRES(step_);
  bool StaysBlocked(NodeWork& work, const StepFor& purpose, Operation::Result* result)
      WEFT_REQUIRES(step_);
  void IssueAhead() WEFT_REQUIRES(step_);
  void StepMessages(WaitTarget* target);
  // Waits until it makes sense to step again, or `work`, if any, has ended; false at the deadline.
  bool WaitForTurn(const WaitTarget& target, const WaitPolicy& policy, Deadline& deadline,
                   const NodeWork* work);

  NodeGroup& group_;
  NodeState& state_;
  GroupCounters& counters_;
  MessageEngine& messages_;
  OperationDriver& driver_;
  const WaitPolicy policy_;
  const bool caller_drives_;  // no thread steps what nobody waits for

  EventCount woken_;
  IssueLock issue_;
  WordLock step_{woken_};
  mutable Gate gate_{woken_};  // to visit changes nothing
  WorkQueue works_;
  std::atomic<uint32_t> left_{0};
  std::atomic<bool> prepared_for_progress_{false};  // PrepareProgress() has been Ok: stays so
  std::atomic<bool> asked_for_progress_{false};     // Progress has the group
  std::atomic<uint32_t> waiting_{0};                // threads that have waited for works for longer
  // Sequence number of the last operation that was started for the background: until it has ended, the progress thread steps.
  std::atomic<uint64_t> background_until_{0};
  std::atomic<uint64_t> seen_ended_{0};  // operations, at the last Look()
  std::atomic<bool> seen_queued_{false};
};

}  // namespace weft
