// The process group of ranks that share a node.
//
// A blocking call with nothing before it runs its Operation on the caller's stack: no allocation, no
// lock, no system call unless it has to wait long. Otherwise the operation is a NodeWork, which goes as far as it can
// when it is started with nothing before it, and is then queued and stepped by whoever waits or tests, or by the
// process's progress thread.
//
// Sends and receives go another way, in `messages_` (message_engine.h); the two do not order each other.
//
// Words: `issue_` orders callers, `step_` those who step the queue. Both are taken by one
// compare-and-swap; a loser waits in base/wait, but for a start, which never does: it leaves its operation to the
// holder of `issue_` (issue_word.h). Callbacks run with neither held. NodeState and what an
// operation changes belong to the queue: to `step_` while an operation is queued, and to `issue_` while none
// is. Only under `issue_` is one added, and a stepper that finds none touches nothing; so a blocking call, or a
// start, that holds `issue_` and has found the queue empty needs no second word.
// Thread-safety: all public members, any thread. Owns no thread; hands itself to Progress while
// operations are queued.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/wait.h"
#include "comm/group/fork.h"
#include "comm/group/process_group.h"
#include "comm/group/stepped.h"
#include "comm/node/cpu_spread.h"
#include "comm/node/failure.h"
#include "comm/node/failure_dump.h"
#include "comm/node/group_counters.h"
#include "comm/node/heap.h"
#include "comm/node/issue_word.h"
#include "comm/node/message_engine.h"
#include "comm/node/node_state.h"
#include "comm/node/operation.h"
#include "comm/node/prepared_call.h"
#include "comm/node/remains.h"
#include "comm/node/segment_notices.h"
#include "comm/node/work_queue.h"

namespace weft {

struct SharedOffer;

// What the first rank of a part tells the others when a group is split.
struct SplitOffer {
  int32_t result;  // weft_result_t of making the segment
  uint32_t unused;
  uint64_t offset;  // of the segment, in its heap
  uint64_t group_id;
};

class NodeGroup : public ProcessGroup,
                  public Stepped,
                  public std::enable_shared_from_this<NodeGroup> {
 public:
  // What a rank knows when it joins; `state` has its constants set. The segment belongs to rank 0's
  // heap; rank 0 gives it back when all have left.
  NodeGroup(NodeState state, GroupOptions options);
  ~NodeGroup() override;

  int rank() const override { return state_.rank; }

  int size() const override { return state_.size; }

  const std::string& name() const override { return options_.name; }

  int world_rank(int rank) const override { return state_.WorldRank(rank); }

  absl::Status Run(const Collective& collective) override;
  bool RunAgain(const CallKey& key, const void* in, void* out, absl::Status* failure) override;
  absl::StatusOr<WorkRef> Start(const Collective& collective) override;
  bool StartAgain(const CallKey& key, const void* in, void* out, WorkRef* started) override;
  absl::Status Run(const Message& message) override;
  absl::StatusOr<WorkRef> Start(const Message& message) override;
  absl::Status RunPair(const Message& send, const Message& recv) override;
  absl::StatusOr<WorkRef> StartPair(const Message& send, const Message& recv) override;
  absl::StatusOr<std::shared_ptr<ProcessGroup>> Split(int color, int key,
                                                      const GroupOptions& options) override;
  absl::StatusOr<void*> AllocateShared(size_t bytes) override;
  absl::Status FreeShared(void* memory) override;
  std::string Explain(const Collective& collective, BufferKind buffers) const override;
  GroupStats stats() const override;
  absl::Status error() override;
  void Abort(std::string_view reason) override;
  void Fail(const absl::Status& cause) override;

  NoticeBoard* notices() override { return &notices_; }

  void Close() override;

  Attendance Look() override;
  bool TryStep(WaitTarget* target) override;
  bool Help(WaitTarget* target) override;

  void WaitFor(const WaitTarget& target, Deadline& deadline) override {
    WaitForTurn(target, policy_, deadline, nullptr);
  }

  int32_t QueuedPriority() override;

  uint32_t queued() const override {
    return queue_.size() + left_.load(std::memory_order_seq_cst) + messages_.works();
  }

  void SetAskedForProgress(bool asked) override {
    asked_for_progress_.store(asked, std::memory_order_seq_cst);
  }

  // For works.
  // Steps until `work` has ended, and waits in between; false if timeout_ns, unless that is 0, have passed before.
  bool Await(const NodeWork& work, int64_t timeout_ns);
  // Waits until it makes sense to step again, or `work`, if any, has ended; false at the deadline.
  bool WaitForTurn(const WaitTarget& target, const WaitPolicy& policy, Deadline& deadline,
                   const NodeWork* work);

  bool has_queued() const { return queued() > 0; }

  MessageEngine& messages() { return messages_; }

  // A thread that steps or waits counts itself between the two; false if it must not any more.
  bool Enter();
  void Leave();
  absl::Status Closed() const;
  absl::Status Forked() const;
  // Of a group in which no operation may start, while it is not closed.
  absl::Status Refusal();

  // False in a forked child of the process that made the group.
  bool here() const { return origin_.here(); }

  // The group has ended and an operation is about to say so.
  void NoteFailure(const absl::Status& cause);

  // Under the rank's message word.
  void CountMessage(bool is_send, size_t bytes, bool well) {
    counters_.MessageEnded(is_send, bytes, well);
  }

  void RingLocal() { NotifyAll(local_); }

 private:
  static constexpr uint32_t kClosed = UINT32_MAX;  // no process's ForkGeneration()
  static constexpr int64_t kCheckPeersNs = 5'000'000;
  static constexpr uint32_t kBriefProbes = 64;  // a microsecond or two

  // What somebody steps the queue for. While the front is blocked it is probed `probes` times, until `work` has
  // ended. `starts`: deadlines and peers are left to others to look at.
  struct StepFor {
    const NodeWork* work = nullptr;
    uint32_t probes = 0;
    bool starts = false;
  };

  // One blocking operation; issue_ is held and nothing is queued. True if it ended well, else *failure is
  // set.
  bool RunNow(const PreparedCall& prepared, int64_t timeout_ns, absl::Status* failure);
  // Advances an operation that is blocked to its end, which is kFailed as well if it must not go on.
  Operation::Result FinishBlocked(Operation& operation, int64_t timeout_ns);
  absl::Status RunPinned(const Collective& call);
  // Holds issue_ for a scope.
  class IssueTurn;

  absl::Status TakeTurn(const Collective& call, Deadline& turn);
  absl::Status Equip(const PreparedCall& prepared);

  // False if no operation may start; why not says Refusal().
  bool Usable() const {
    return IsForkGeneration(open_in_.load(std::memory_order_relaxed)) && !state_.aborted();
  }

  bool closed() const { return open_in_.load(std::memory_order_relaxed) == kClosed; }

  bool has_operations() const { return queue_.size() > 0; }

  absl::StatusOr<WorkRef> StartMessages(std::span<const Message> messages);
  int64_t TimeoutOf(const Message& message) const;

  bool TryAcquire(std::atomic<uint32_t>& word) {
    uint32_t free = 0;
    // seq_cst: who steps looks at gone_ next (Close).
    return word.compare_exchange_strong(free, 1, std::memory_order_seq_cst,
                                        std::memory_order_relaxed);
  }

  void Release(std::atomic<uint32_t>& word);

  // Lets go of issue_. Where others have started operations meanwhile, these are issued first.
  void LetGo() {
    if (!issue_.TryLetGo()) [[unlikely]] {
      return IssueLeft();
    }
    NotifyAll(local_);
  }

  bool AwaitIssueWord(Deadline& deadline);
  WaitPolicy PolicyTowards(int peer) const;
  int64_t TimeoutOf(const Collective& call) const;

  // Waits for operation.target(); false if the operation must end, then the group has failed.
  bool AwaitTarget(const Operation& operation, Deadline& deadline);
  // True if waiting for `target` is pointless: the group has ended, or that peer has. Looks at
  // processes every few milliseconds.
  bool Hopeless(const Operation& operation, const WaitTarget& target);
  bool Needs(const Operation& operation, const WaitTarget& target, int peer) const;
  // What to return for an operation that was stepped to its end.
  absl::Status Conclude(const Operation& operation, Operation::Result result);

  void NoteEnd(const PreparedCall& prepared, uint64_t sequence, bool well) {
    counters_.Ended(well, prepared.buffers.in_bytes, prepared.buffers.out_bytes);
    state_.recorder.SetState(sequence, well ? RecordState::kDone : RecordState::kFailed);
    if (state_.staging.base() != nullptr && !counts_stage_) CountStage();
  }

  void CountStage();
  absl::Status ConcludeFailed(const Operation& operation);
  bool AwaitEnd(int peer);
  // node_group_queue.cc
  absl::Status ReadyForProgress();
  void Begin(NodeWork& work);
  void Launch(const std::shared_ptr<NodeWork>& work, IssueTurn& turn);
  absl::Status LeaveToHolder(const std::shared_ptr<NodeWork>& work);
  bool QueueLeft(NodeWork* left);
  void IssueLeft();
  void AskAfterStart(bool background);
  void WakeAfterStart();
  // Steps the queue unless somebody else does; returns what its front waits for, if it does.
  WaitTarget Step(const StepFor& purpose);
  bool StepQueue(StepFor purpose, EndedWorks* ended, WaitTarget* target);
  bool StaysBlocked(NodeWork& work, const StepFor& purpose, Operation::Result* result);
  void IssueAhead();
  void StepMessages(WaitTarget* target);

  std::string Disengage(const Operation& operation);
  void AwaitTurnToClose();
  // Keeps the segment of a part that this rank leads and cannot join, until Close().
  void KeepFailedSplit(uint64_t offset, const std::vector<int>& members);
  absl::StatusOr<std::shared_ptr<ProcessGroup>> SplitAsVisitor(int color, int key,
                                                               const GroupOptions& options);
  absl::StatusOr<std::shared_ptr<ProcessGroup>> JoinPart(int color, const std::vector<int>& members,
                                                         const SplitOffer& chosen,
                                                         const GroupOptions& options);

  // shared_memory.cc
  absl::StatusOr<void*> AllocateSharedAsVisitor(size_t bytes);
  absl::Status FreeSharedAsVisitor(void* memory);
  absl::StatusOr<std::vector<SharedOffer>> ExchangeOffers(const SharedOffer& mine);
  void HoldShared(void* memory, size_t bytes);
  void DropShared(void* memory);
  std::vector<void*> TakeShared();
  uint64_t SharedBytes() const;

  NodeState state_;
  const GroupOptions options_;
  Heap& heap_;
  const Origin origin_;
  const WaitPolicy policy_;
  FailureReporter failures_;
  Deadline disengage_patience_;  // of all operations together; as NodeState
  FailureDump dump_;
  GroupCounters counters_;
  PreparedCalls prepared_;     // guarded by issue_
  CpuSpread spread_;           // as NodeState
  bool counts_stage_ = false;  // as NodeState
  SegmentNotices notices_;
  MessageEngine messages_;

  EventCount
      local_;  // rung when step_ or issue_ is let go, when what was left is issued, and when a work ends
  IssueWord issue_;
  std::atomic<uint32_t> left_{0};  // operations left to the holder of issue_
  std::atomic<uint32_t> step_{0};
  // The process that it takes operations in: that it was made in, until Close().
  std::atomic<uint32_t> open_in_{ForkGeneration()};
  std::atomic<bool> gone_{false};       // the segment may be freed; nobody may step or wait
  std::atomic<uint32_t> visitors_{0};   // threads that step or wait for queued operations, or split
  std::atomic<bool> reported_{false};   // the first failure was returned to somebody
  std::atomic<int64_t> checked_ns_{0};  // when peers' processes were last looked at

  WorkQueue queue_;
  const bool caller_drives_;                     // no thread steps what nobody waits for
  std::atomic<bool> ready_for_progress_{false};  // PrepareProgress() has been Ok: stays so
  std::atomic<bool> asked_for_progress_{false};  // Progress has the group
  std::atomic<uint32_t> waiting_{0};             // threads that have waited for works for longer
  std::atomic<uint64_t> background_until_{
      0};  // so many have to end until none was left to the progress thread
  std::atomic<uint64_t> seen_ended_{0};  // operations, at the last Look()
  std::atomic<bool> seen_queued_{false};

  Mutex splits_mutex_;
  std::vector<FailedSplit> failed_splits_ WEFT_GUARDED_BY(splits_mutex_);

  mutable Mutex shared_mutex_;
  std::map<void*, size_t> shared_ WEFT_GUARDED_BY(shared_mutex_);  // bytes of shared blocks
};

class NodeGroup::IssueTurn {
 public:
  // issue_ is held.
  explicit IssueTurn(NodeGroup& group) : group_(&group) {}

  IssueTurn(const IssueTurn&) = delete;
  IssueTurn& operator=(const IssueTurn&) = delete;

  ~IssueTurn() {
    if (group_ != nullptr) group_->LetGo();
  }

  void End() { std::exchange(group_, nullptr)->LetGo(); }

 private:
  NodeGroup* group_;
};

}  // namespace weft
