// The messages of one rank of a node group: beside the queue of collectives, which they do not order.
//
//   WEFT_RETURN_IF_ERROR(engine.Run(operations));       // operations on the caller's stack
//   engine.Start(work);                                 // or in a MessageWork
//
// The outbox and the inbox are stepped by whoever waits or tests and by the progress thread, one
// thread at a time under the engine's lock, which is never held while waiting for a peer. Any rank
// that does something for which this one may wait counts `events` up and notifies it, so a waiter
// steps, and sleeps until the count is another than before its step.
// A blocking call that finds room, or its message, acquires the lock once and neither allocates
// nor calls the kernel.
//
// Thread-safety: all members, any thread, unless said otherwise. docs/design/005-messages.md.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "base/wait.h"
#include "base/word_lock.h"
#include "comm/node/early_leavers.h"
#include "comm/node/end_report.h"
#include "comm/node/failure.h"
#include "comm/node/group_counters.h"
#include "comm/node/inbox.h"
#include "comm/node/message_failure.h"
#include "comm/node/message_operation.h"
#include "comm/node/message_work.h"
#include "comm/node/node_state.h"
#include "comm/node/outbox.h"

namespace weft {

class NodeGroup;

class MessageEngine {
 public:
  // All outlive the engine; of `state` only the constants are used.
  MessageEngine(NodeGroup& group, const NodeState& state, const std::string& group_name,
                FailureReporter& failures, EndReport& report, GroupCounters& counters,
                const WaitPolicy& policy);

  // Takes the operations up and waits until all have ended; the first failure, if any.
  absl::Status Run(std::span<MessageOperation* const> operations);

  // Whether a probe finds something now. If not, nothing is left of it.
  absl::StatusOr<bool> TryProbe(MessageOperation& probe);

  // Takes the work's operations up. Refused, with nothing done, if the group was closed or has ended, or if there is
  // no memory for a channel.
  absl::Status Start(const std::shared_ptr<MessageWork>& work);

  // Steps until all operations have ended; false at the deadline.
  bool Await(std::span<MessageOperation* const> operations, Deadline& patience);

  // One step, unless another thread steps. True if works are pending; then *target is what to wait for,
  // or empty if another thread steps. Runs callbacks: with no lock of weft held.
  bool TryStep(WaitTarget* target);

  // As TryStep, for a caller that holds locks of the group: callbacks are left for RunCallbacks().
  void StepUnderLocks();

  void RunCallbacks() {
    if (caller_drives_) RunEndedCallbacks();
  }

  // Works taken up and not ended.
  uint32_t works() const { return works_.load(std::memory_order_seq_cst); }

  bool has_works() const { return works_.load(std::memory_order_seq_cst) > 0; }

  // Takes up nothing from now on; true if something has not ended: the group is to be aborted then.
  bool Seal();

  // After Seal: ends what has not ended, also what a blocking call waits for.
  void EndAll();

  // After Seal, once nobody steps any more: the heap blocks that peers may be reading.
  std::vector<void*> TakeBlocks();

 private:
  class Turn;

  void RunEndedCallbacks();
  struct Loss;

  void Acquire() WEFT_ACQUIRE(lock_);
  bool CallBackFromOutside(EndedMessages ended);
  bool HelpFromOutside();

  absl::Status Admit(std::span<MessageOperation* const> operations) WEFT_REQUIRES(lock_);

  EndedMessages TakeEnded() WEFT_REQUIRES(lock_) { return std::move(ended_works_); }

  void TakeUp(std::span<MessageOperation* const> operations) WEFT_REQUIRES(lock_);
  bool Step() WEFT_REQUIRES(lock_);
  void Settle(const absl::Status& status, MessageList* ended) WEFT_REQUIRES(lock_);
  void FailAll() WEFT_REQUIRES(lock_);
  void End(MessageOperation& operation, const absl::Status& found) WEFT_REQUIRES(lock_);
  std::string QuiescePeer(const MessageOperation& send, Deadline& patience);
  void LookAtPeers(bool shows_wait) WEFT_REQUIRES(lock_);
  void ShowWait() WEFT_REQUIRES(lock_);
  void EndWait() WEFT_REQUIRES(lock_) {
    if (shows_wait_) [[unlikely]] {
      EndShownWait();
    }
  }

  void EndShownWait() WEFT_REQUIRES(lock_);
  bool AnyLate(int64_t now_ns) WEFT_REQUIRES(lock_);
  std::vector<Loss> FindLosses(bool ask_programs, int64_t now_ns, bool late) WEFT_REQUIRES(lock_);
  absl::Status Diagnose(const std::vector<Loss>& losses, int64_t now_ns) const WEFT_REQUIRES(lock_);
  absl::Status LossOf(const MessageOperation& operation, const std::vector<Loss>& losses) const;
  template <typename Visit>
  void ForEach(Visit&& visit) const WEFT_REQUIRES(lock_);

  NodeGroup& group_;
  const NodeState& state_;
  FailureReporter& failures_;
  EndReport& report_;
  GroupCounters& counters_;
  const MessageFailure sentences_;
  const WaitPolicy policy_;
  const bool caller_drives_;  // no progress thread: waiters help collectives on

  std::atomic<uint32_t> works_{0};  // taken up and not ended
  EventCount released_;
  WordLock lock_{released_};
  Outbox outbox_ WEFT_GUARDED_BY(lock_);
  Inbox inbox_ WEFT_GUARDED_BY(lock_);
  bool sealed_ WEFT_GUARDED_BY(lock_) = false;
  int64_t look_ns_ WEFT_GUARDED_BY(lock_) = 0;  // when to look at deadlines and peers next
  int64_t programs_asked_ns_ WEFT_GUARDED_BY(lock_) =
      0;  // when peers were last asked what they run
  EarlyLeavers leavers_ WEFT_GUARDED_BY(lock_);
  bool shows_wait_ WEFT_GUARDED_BY(lock_) = false;
  MessageRing ring_ WEFT_GUARDED_BY(lock_);
  EndedMessages ended_works_ WEFT_GUARDED_BY(lock_);
};

}  // namespace weft
