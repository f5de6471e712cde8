// The process group of ranks that share a node.
//
// A blocking call with nothing before it runs its Operation on the caller's stack: no allocation, no
// mutex, no system call unless it has to wait long. Otherwise the operation is a NodeWork, which goes as far as it can
// when it is started with nothing before it, and is then queued and stepped by whoever waits or tests, or by the
// process's progress thread (operation_queue.h, where the locks are, too).
//
// Sends and receives go another way, in `messages_` (message_engine.h); the two do not order each other.
//
// Thread-safety: all public members, any thread. Owns no thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/wait.h"
#include "comm/group/fork.h"
#include "comm/group/process_group.h"
#include "comm/group/refusal.h"
#include "comm/node/end_report.h"
#include "comm/node/failed_splits.h"
#include "comm/node/failure.h"
#include "comm/node/group_counters.h"
#include "comm/node/group_watch.h"
#include "comm/node/heap.h"
#include "comm/node/message_engine.h"
#include "comm/node/node_state.h"
#include "comm/node/operation.h"
#include "comm/node/operation_driver.h"
#include "comm/node/operation_queue.h"
#include "comm/node/parts.h"
#include "comm/node/prepared_call.h"
#include "comm/node/segment_notices.h"
#include "comm/node/shared_memory.h"

namespace weft {

class NodeGroup : public ProcessGroup, public std::enable_shared_from_this<NodeGroup> {
 public:
  // What a rank knows when it joins; `state` has its constants set. The segment belongs to rank 0's
  // heap; rank 0 gives it back when all have left.
  NodeGroup(NodeState state, GroupOptions options);
  ~NodeGroup() override;

  int rank() const override { return state_.rank; }

  int size() const override { return state_.size; }

  const std::string& name() const override { return options_.name; }

  int world_rank(int rank) const override { return state_.WorldRank(rank); }

  uint32_t epoch() const override { return state_.epoch; }

  absl::Status Run(const Collective& collective) override;
  bool TryRunCached(const CallKey& key, const void* in, void* out, absl::Status* failure) override;
  bool TryRunCached(const CallKey& key, const void* in, void* out, const CallExtras& extras,
                    absl::Status* failure) override;
  absl::StatusOr<WorkRef> Start(const Collective& collective) override;
  bool TryStartCached(const CallKey& key, const void* in, void* out, const CallExtras& extras,
                      WorkRef* started) override;
  absl::Status Run(const Message& message) override;
  absl::StatusOr<WorkRef> Start(const Message& message) override;
  absl::Status RunPair(const Message& send, const Message& recv) override;
  absl::StatusOr<WorkRef> StartPair(const Message& send, const Message& recv) override;
  absl::StatusOr<bool> TryProbe(const Message& probe) override;
  absl::Status Refuse(std::optional<OpKind> refused, std::string_view reason) override;
  absl::StatusOr<std::shared_ptr<ProcessGroup>> Split(int color, int key,
                                                      const GroupOptions& options) override;
  absl::StatusOr<std::shared_ptr<ProcessGroup>> Reconfigure(const std::vector<int>& members,
                                                            const GroupOptions& options) override;
  absl::StatusOr<void*> AllocateShared(size_t bytes) override;
  absl::Status FreeShared(void* memory) override;
  std::string Explain(const Collective& collective, BufferKind buffers) const override;
  GroupStats stats() const override;

  uint64_t sequence() const override { return counters_.started(); }

  void SetTimeout(int64_t timeout_ns) override;
  absl::Status error() override;
  void Abort(std::string_view reason) override;
  void Fail(const absl::Status& cause) override;

  NoticeBoard* notices() override { return &notices_; }

  void Close() override;

  // For works and the message engine.
  OperationQueue& queue() { return queue_; }

  MessageEngine& messages() { return messages_; }

  Gate& gate() const { return queue_.gate(); }

  // From now on the agent looks after the group, until Close(). `whole`: that it was split from, if
  // it was.
  void BeWatched(const Whole& whole);

  // False in a forked child of the process that made the group.
  bool here() const { return origin_.here(); }

  absl::Status Closed() const;
  absl::Status Forked() const;
  // Of a group in which no operation may start.
  absl::Status Refusal();

 private:
  static constexpr uint32_t kClosed = UINT32_MAX;  // no process's ForkGeneration()

  class Turn;

  // Either form of TryRunCached; nullptr: no extras.
  bool RunCached(const CallKey& key, const void* in, void* out, const CallExtras* extras,
                 absl::Status* failure);
  // One blocking operation, whose recorder entry is `recorded`; nothing is queued. True if it ended well, else *failure
  // is set.
  bool RunNow(const PreparedCall& prepared, const RecordedArguments& recorded, int64_t timeout_ns,
              absl::Status* failure) WEFT_REQUIRES(queue_.issue());
  void CountStage();
  absl::Status RunPinned(const Collective& call) WEFT_REQUIRES(queue_.issue());
  absl::Status Equip(const PreparedCall& prepared) WEFT_REQUIRES(queue_.issue());

  // False if no operation may start; why not says Refusal().
  bool Usable() const {
    return IsForkGeneration(open_in_.load(std::memory_order_relaxed)) && !state_.aborted();
  }

  bool closed() const { return open_in_.load(std::memory_order_relaxed) == kClosed; }

  absl::StatusOr<WorkRef> StartMessages(std::span<const Message> messages);

  int64_t TimeoutOf(int64_t asked_ns) const { return asked_ns > 0 ? asked_ns : timeout_ns(); }

  int64_t timeout_ns() const { return timeout_ns_.load(std::memory_order_relaxed); }

  void EndOperations();

  // What an operation needs, and what is kept of it. Guarded as NodeState (operation_queue.h).
  NodeState state_;
  const GroupOptions options_;       // as the group was made
  std::atomic<int64_t> timeout_ns_;  // of operations to come that have none of their own
  Heap& heap_;
  const Origin origin_;
  const WaitPolicy policy_;
  FailureReporter failures_;
  const std::shared_ptr<Parts> parts_ = std::make_shared<Parts>();  // split from this group
  std::shared_ptr<Parts> part_of_;  // of the group that this one was split from, if any
  EndReport report_;
  GroupCounters counters_;
  PreparedCalls prepared_ WEFT_GUARDED_BY(queue_.issue());
  OperationQueue queue_;
  OperationDriver driver_;
  MessageEngine messages_;
  // The process that it takes operations in: that it was made in, until Close().
  std::atomic<uint32_t> open_in_{ForkGeneration()};
  SharedMemory shared_memory_;
  FailedSplits failed_splits_;
  SegmentNotices notices_;
  Refusals refusals_;
  GroupWatch watch_;
  std::atomic<bool> reconfigured_{false};  // closed because its ranks go on in another one
};

}  // namespace weft
