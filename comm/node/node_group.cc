// Three ways lead into an operation, from the cheapest to the most general, and each leaves to the next what it cannot do:
// TryRunCached knows the call already and only looks at its buffers, Run blocks on the caller's stack, Start makes a work.
// The first two are the small call's path, which is counted in instructions (instruction_count_test): so what they share is
// inlined, and what is rare stands in other sources. Everything else here is about the end of a group: who may still be inside,
// what a call is told that comes too late, and in which order things go.
#include "comm/node/node_group.h"

#include <algorithm>
#include <list>
#include <utility>

#include "base/interrupt.h"
#include "base/log.h"
#include "base/options.h"
#include "base/status.h"
#include "comm/group/progress.h"
#include "comm/node/deferred_reclamation.h"
#include "comm/node/explain.h"
#include "comm/node/message_work.h"
#include "comm/node/node_work.h"
#include "comm/node/reconfigure.h"
#include "comm/node/single_rank.h"
#include "comm/node/split.h"
#include "fmt/format.h"

namespace weft {
namespace {

constexpr int64_t kCloseNs = 2 * kQuiesceNs;  // between two warnings
constexpr std::string_view kClosedWithOperations = "it was closed with operations under way";

// What the group's tuning says, unless the user does.
WaitPolicy PolicyOf(const Tuning& tuning) {
  const Options& options = GetOptions();
  WaitPolicy policy{.spins = tuning.spins, .yields = tuning.yields};
  if (options.spin_count >= 0) policy.spins = static_cast<uint32_t>(options.spin_count);
  if (options.yield_count >= 0) policy.yields = static_cast<uint32_t>(options.yield_count);
  return policy;
}

// Those that may be registered; usually none.
void PinParts(const BlockLayout& layout, std::list<RegistrationPin>* pins) {
  Heap& heap = ProcessHeap();
  for (const weft_iov_t& part : layout.parts) {
    for (const void* const memory : {part.in, static_cast<const void*>(part.out)}) {
      if (heap.MayBeRegistered(memory)) pins->emplace_back(heap, memory);
    }
  }
}

}  // namespace

// Holds the issue lock for a scope. It knows the group and not the queue, and the rare case is a call, because a small call has
// no register to spare for the queue's address.
class WEFT_SCOPED_CAPABILITY NodeGroup::Turn {
 public:
  // The lock is held.
  explicit Turn(NodeGroup& group) WEFT_REQUIRES(group.queue_.issue()) : group_(&group) {}

  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  ~Turn() WEFT_RELEASE() {
    if (group_ != nullptr) Release(*group_);
  }

  void End() WEFT_RELEASE() { Release(*std::exchange(group_, nullptr)); }

  // Starts an operation and releases the lock.
  void Launch(const std::shared_ptr<NodeWork>& work) WEFT_RELEASE() {
    OperationQueue& queue = group_->queue_;
    const OperationQueue::Launched launched = queue.Launch(work);
    End();
    queue.FollowUp(work, launched);
  }

 private:
  static void Release(NodeGroup& group) WEFT_NO_THREAD_SAFETY_ANALYSIS {
    if (!group.queue_.TryReleaseIssue()) [[unlikely]] {
      IssueLeft(group);
    }
  }

  [[gnu::noinline]] static void IssueLeft(NodeGroup& group) WEFT_NO_THREAD_SAFETY_ANALYSIS {
    group.queue_.IssueLeft();
  }

  NodeGroup* group_;
};

NodeGroup::NodeGroup(NodeState state, GroupOptions options)
    : state_(std::move(state)),
      options_(std::move(options)),
      timeout_ns_(TimeoutOrDefault(options_.timeout_ns)),
      heap_(ProcessHeap()),
      policy_(PolicyOf(state_.tuning)),
      failures_(state_, options_.name),
      report_(state_, options_.name, failures_, *parts_),
      queue_(*this, state_, counters_, messages_, driver_, policy_),
      driver_(state_, counters_, failures_, report_, messages_, policy_, queue_.woken()),
      messages_(*this, state_, options_.name, failures_, report_, counters_, policy_),
      shared_memory_(*this, state_, options_.name, heap_),
      notices_(state_.segment, state_.rank, queue_.gate()),
      refusals_(state_.size),
      watch_(state_, failures_, counters_, *parts_, notices_, queue_.gate(), queue_.woken()) {
  RankControl& self = state_.self();
  const NodePeer::Identity& identity = state_.peers[static_cast<size_t>(state_.rank)]->identity();
  self.pid = identity.pid;
  self.start_time = identity.start_time;
  self.cpu.store(kUnknownCpu, std::memory_order_relaxed);
  AddProgressUser();  // may fail: nobody has seen the rank
  state_.lifecycle.Record({.kind = LifecycleKind::kJoined,
                           .epoch = state_.epoch,
                           .other = static_cast<uint64_t>(state_.size)});
  if (state_.parent_id != 0) {
    state_.lifecycle.Record({.kind = LifecycleKind::kSplit,
                             .epoch = state_.epoch,
                             .rank = state_.parent_rank,
                             .other = state_.parent_id});
  }
  self.state.store(RankState::kJoined, std::memory_order_seq_cst);
  NotifyAll(self.waiters);
  if (state_.rank == 0) counters_.Holds(Segment::Bytes(state_.size, state_.tuning.combine != 0));
}

void NodeGroup::BeWatched(const Whole& whole) {
  if (options_.ends_whole) parts_->SetWhole(whole.group);
  part_of_ = whole.parts;
  if (part_of_ != nullptr) part_of_->Add(shared_from_this());
  if (state_.size > 1) WatchGroup(std::shared_ptr<Watched>(shared_from_this(), &watch_));
}

NodeGroup::~NodeGroup() {
  NodeGroup::Close();
}

absl::Status NodeGroup::Closed() const {
  if (!here()) return Forked();
  if (reconfigured_.load(std::memory_order_acquire)) {
    return MakeError(
        WEFT_ABORTED, {.group = options_.name},
        fmt::format("group {} was reconfigured while this call was made", options_.name));
  }
  return MakeError(WEFT_INVALID_USAGE, fmt::format("group {} was closed", options_.name));
}

absl::Status NodeGroup::Forked() const {
  return MakeError(WEFT_FORKED, {.group = options_.name},
                   fmt::format("group {} was made by the parent of this forked process, which goes "
                               "on with it; a child that is to use weft must be forked before the "
                               "parent makes groups or shared memory",
                               options_.name));
}

absl::Status NodeGroup::Refusal() {
  if (!here()) return Forked();
  return closed() ? Closed() : report_.Refusal();
}

absl::Status NodeGroup::error() {
  const Visit visit(gate());
  if (!visit.inside()) return Closed();
  LookAfterGroups();
  return failures_.Cause();
}

std::string NodeGroup::Explain(const Collective& call, BufferKind buffers) const {
  const Visit visit(gate());
  return visit.inside() ? ExplainCollective(call, buffers, state_) : "";
}

void NodeGroup::SetTimeout(int64_t timeout_ns) {
  timeout_ns_.store(TimeoutOrDefault(timeout_ns), std::memory_order_relaxed);
}

GroupStats NodeGroup::stats() const {
  GroupStats stats = counters_.Read();
  stats.pending += messages_.works() + queue_.left();
  stats.pending -= std::min(stats.pending, refusals_.pending());
  stats.shared_bytes += shared_memory_.bytes();
  const auto ranks = static_cast<uint64_t>(state_.size);
  stats.private_bytes =
      sizeof(NodeGroup) + options_.name.capacity() + queue_.queued() * sizeof(NodeWork) +
      ranks * (sizeof(state_.known_done[0]) + sizeof(char*) + sizeof(std::shared_ptr<NodePeer>));
  return stats;
}

// What can fail for this rank alone before its peers see anything. While an operation is queued, staging is of whoever
// steps.
absl::Status NodeGroup::Equip(const PreparedCall& prepared) {
  if (!prepared.slot_in_ring || queue_.has_operations()) return absl::OkStatus();
  return state_.staging.Make(state_);
}

// Inlined into its callers: the steady path is short, and a good part of it would be calls.
[[gnu::always_inline]] inline bool NodeGroup::RunNow(const PreparedCall& prepared,
                                                     const RecordedArguments& recorded,
                                                     int64_t timeout_ns, absl::Status* failure) {
  const uint64_t sequence = counters_.Start();
  uint32_t cpu = 0;
  state_.recorder.Record(sequence, RecorderTicks(&cpu), recorded);
  state_.NoteCpu(cpu);
  if (prepared.protocol == Protocol::kSingleRank) {
    FinishSingleRank(prepared, sequence, state_);
  } else {
    Operation operation(prepared, sequence, state_);
    const Operation::Result result = operation.Poll();
    if (result != Operation::Result::kDone &&
        !driver_.Finish(operation, result, timeout_ns, failure)) {
      return false;
    }
  }
  NoteEnd(state_, counters_, prepared, sequence, true);
  if (state_.staging.base() != nullptr && !counters_.holds_stage()) [[unlikely]] {
    CountStage();
  }
  return true;
}

[[gnu::noinline]] void NodeGroup::CountStage() {
  driver_.CountStage();
}

[[gnu::always_inline]] inline bool NodeGroup::RunCached(const CallKey& key, const void* in,
                                                        void* out, const CallExtras* extras,
                                                        absl::Status* failure) {
  if (!queue_.issue().TryAcquire()) return false;
  Turn turn(*this);
  const PreparedCall* const prepared = prepared_.Find(key, in, out);
  const Heap& heap = heap_;
  // Registered memory must be pinned.
  const bool usual = prepared != nullptr && !heap.MayBeRegistered(in) &&
                     !heap.MayBeRegistered(out) && !queue_.has_operations() && Usable();
  RecordedArguments recorded;
  if (usual && extras != nullptr) {
    recorded = prepared->recorded;
    recorded.tag = extras->tag;
  }
  const bool well =
      usual && RunNow(*prepared, extras != nullptr ? recorded : prepared->recorded,
                      extras != nullptr ? TimeoutOf(extras->timeout_ns) : timeout_ns(), failure);
  turn.End();
  if (usual) messages_.RunCallbacks();
  return well;
}

bool NodeGroup::TryRunCached(const CallKey& key, const void* in, void* out, absl::Status* failure) {
  return RunCached(key, in, out, nullptr, failure);
}

bool NodeGroup::TryRunCached(const CallKey& key, const void* in, void* out,
                             const CallExtras& extras, absl::Status* failure) {
  return RunCached(key, in, out, &extras, failure);
}

absl::Status NodeGroup::RunPinned(const Collective& call) {
  const RegistrationPin in(heap_, call.in);
  const RegistrationPin out(heap_, call.out);
  std::list<RegistrationPin> parts;
  if (TraitsOf(call.kind).iov) PinParts(*call.layout, &parts);
  PreparedCall prepared(call, state_);
  WEFT_RETURN_IF_ERROR(Equip(prepared));
  absl::Status failure;
  if (RunNow(prepared, prepared.recorded, TimeoutOf(call.timeout_ns), &failure) && IsPlain(call)) {
    prepared_.Keep(std::move(prepared));
  }
  return failure;
}

absl::Status NodeGroup::Run(const Collective& call) {
  const int64_t timeout_ns = TimeoutOf(call.timeout_ns);
  Deadline patience{timeout_ns};
  if (!here()) return Forked();  // whoever holds the issue lock may be of the parent only
  if (closed()) return Closed();
  if (!queue_.AcquireIssue(patience)) {
    return MakeError(WEFT_TIMEOUT,
                     fmt::format("{} on group {}: another thread's call did not end",
                                 CallName(call.kind, call.purpose.record), options_.name));
  }
  Turn turn(*this);
  WEFT_RETURN_IF_ERROR(Usable() ? CheckAlgorithm(call, state_) : Refusal());
  if (!queue_.has_operations()) {
    absl::Status status = RunPinned(call);
    turn.End();
    messages_.RunCallbacks();
    return status;
  }
  const auto work =
      std::make_shared<NodeWork>(shared_from_this(), PreparedCall(call, state_), timeout_ns);
  queue_.Add(work);
  turn.End();
  absl::Status status = work->Wait(0);
  if (ResultOf(status) != WEFT_INTERRUPTED) return status;
  // As an operation that is not queued. Its buffers are the caller's again when it has ended.
  (void)TakeInterrupt();
  Abort("interrupted by its program (weft_set_interrupt)");
  const UninterruptedWaits until_it_has_ended;
  const absl::Status ended = work->Wait(0);
  return ended.ok() ? ended : AsInterrupted(ended);
}

// All that can fail comes before peers can see the operation, so a start that fails has done nothing.
absl::StatusOr<WorkRef> NodeGroup::Start(const Collective& call) {
  if (!here()) return Forked();
  if (closed()) return Closed();
  WEFT_RETURN_IF_ERROR(CheckAlgorithm(call, state_));
  WEFT_RETURN_IF_ERROR(queue_.PrepareProgress());
  PreparedCall prepared(call, state_);
  const auto work =
      std::make_shared<NodeWork>(shared_from_this(), prepared, TimeoutOf(call.timeout_ns));
  if (!queue_.issue().TryAcquire()) {
    bool left = false;
    if (!queue_.AcquireOrLeave(work, &left)) {
      if (!left) return Closed();
      return WorkRef(work);
    }
    Turn turn(*this);
    if (!Usable()) return Refusal();
    turn.Launch(work);
    return WorkRef(work);
  }
  Turn turn(*this);
  if (!Usable()) return Refusal();
  WEFT_RETURN_IF_ERROR(Equip(prepared));
  if (IsPlain(call)) prepared_.Keep(std::move(prepared));
  turn.Launch(work);
  return WorkRef(work);
}

bool NodeGroup::TryStartCached(const CallKey& key, const void* in, void* out,
                               const CallExtras& extras, WorkRef* started) {
  if (!queue_.prepared_for_progress() || !queue_.issue().TryAcquire()) return false;
  Turn turn(*this);
  PreparedCall* const prepared = Usable() ? prepared_.Find(key, in, out) : nullptr;
  if (prepared == nullptr) return false;
  prepared->SetExtras(extras);
  const auto work =
      std::make_shared<NodeWork>(shared_from_this(), *prepared, TimeoutOf(extras.timeout_ns));
  prepared->SetExtras({});
  turn.Launch(work);
  *started = work;
  return true;
}

absl::Status NodeGroup::Run(const Message& message) {
  if (!here()) return Forked();
  MessageOperation operation(message, TimeoutOf(message.timeout_ns));
  const RegistrationPin pin(heap_, message.is_send ? message.in : message.out);
  MessageOperation* const operations[] = {&operation};
  return messages_.Run(operations);
}

// The receive first: a message to oneself finds it posted.
absl::Status NodeGroup::RunPair(const Message& send, const Message& recv) {
  if (!here()) return Forked();
  MessageOperation sends(send, TimeoutOf(send.timeout_ns));
  MessageOperation receives(recv, TimeoutOf(recv.timeout_ns));
  const RegistrationPin in(heap_, send.in);
  const RegistrationPin out(heap_, recv.out);
  MessageOperation* const operations[] = {&receives, &sends};
  return messages_.Run(operations);
}

absl::StatusOr<WorkRef> NodeGroup::Start(const Message& message) {
  return StartMessages({&message, 1});
}

absl::StatusOr<WorkRef> NodeGroup::StartPair(const Message& send, const Message& recv) {
  const Message messages[] = {recv, send};
  return StartMessages(messages);
}

absl::StatusOr<bool> NodeGroup::TryProbe(const Message& probe) {
  if (!here()) return Forked();
  MessageOperation operation(probe, timeout_ns());
  return messages_.TryProbe(operation);
}

absl::Status NodeGroup::Refuse(std::optional<OpKind> refused, std::string_view reason) {
  return refusals_.Refuse(*this, &notices_, refused, reason);
}

absl::StatusOr<WorkRef> NodeGroup::StartMessages(std::span<const Message> messages) {
  if (!here()) return Forked();
  WEFT_RETURN_IF_ERROR(queue_.PrepareProgress());
  int64_t timeout_ns[MessageWork::kOperationsMax];
  for (size_t i = 0; i < messages.size(); ++i)
    timeout_ns[i] = TimeoutOf(messages[i].timeout_ns);
  auto work = std::make_shared<MessageWork>(shared_from_this(), messages,
                                            std::span(timeout_ns, messages.size()));
  WEFT_RETURN_IF_ERROR(messages_.Start(work));
  if (messages_.has_works()) queue_.AskForProgress(Asking::kNow);
  return WorkRef(std::move(work));
}

// A visitor, so that Close() does not say "leaving" to the others before this rank has joined the part
// or given it up.
absl::StatusOr<std::shared_ptr<ProcessGroup>> NodeGroup::Split(int color, int key,
                                                               const GroupOptions& options) {
  const Visit visit(gate());
  if (!visit.inside()) return Closed();
  GroupOptions inherited = options_;
  inherited.timeout_ns = timeout_ns();
  const SplitParent parent{{shared_from_this(), parts_}, state_, inherited, failed_splits_};
  absl::StatusOr<std::shared_ptr<ProcessGroup>> part = SplitNodeGroup(parent, color, key, options);
  if (state_.aborted()) parts_->Fail(failures_.Cause());  // meanwhile
  return part;
}

// A visitor until all have agreed, as in Split(). Then what is still under way here ends before the new group is handed out.
absl::StatusOr<std::shared_ptr<ProcessGroup>> NodeGroup::Reconfigure(
    const std::vector<int>& members, const GroupOptions& options) {
  std::shared_ptr<ProcessGroup> next;
  {
    const Visit visit(gate());
    if (!visit.inside()) return Closed();
    GroupOptions inherited = options_;
    inherited.timeout_ns = timeout_ns();
    const OldGroup old{state_, inherited, failures_, failed_splits_};
    WEFT_ASSIGN_OR_RETURN(next, ReconfigureNodeGroup(old, members, options));
  }
  reconfigured_.store(true, std::memory_order_release);
  NodeGroup::Abort("it was reconfigured");
  Close();
  return next;
}

absl::StatusOr<void*> NodeGroup::AllocateShared(size_t bytes) {
  const Visit visit(gate());
  if (!visit.inside()) return Closed();
  return shared_memory_.Allocate(bytes);
}

absl::Status NodeGroup::FreeShared(void* memory) {
  const Visit visit(gate());
  return visit.inside() ? shared_memory_.Free(memory) : Closed();
}

void NodeGroup::Abort(std::string_view reason) {
  const Visit visit(
      gate());  // none once it is closed, and none in a forked child: it is the parent's to abort
  if (!visit.inside()) return;
  watch_.End(failures_.Aborted(reason));
}

void NodeGroup::Fail(const absl::Status& cause) {
  const Visit visit(gate());
  if (!visit.inside()) return;
  watch_.End(failures_.Elsewhere(cause));
}

// Until all operations have ended, by the abort if there was one. Only what runs in this process can
// take long, a user's reduction say: that is waited for, and said.
void NodeGroup::EndOperations() {
  Deadline patience{kCloseNs};
  const auto say = [&] {
    LogWarn("closing group ", options_.name, ": an operation of this process has not ended yet");
    patience = Deadline{kCloseNs};
  };
  bool left = false;
  while (!queue_.Seal(patience, &left))
    say();
  if (left) NodeGroup::Abort(kClosedWithOperations);
  messages_.EndAll();
  for (WaitTarget target; queue_.TryStep(&target);) {
    if (!queue_.WaitFor(target, patience)) say();
  }
}

// From the outside in: calls are refused, operations end, threads leave, the other ranks are told, memory goes.
void NodeGroup::Close() {
  if (open_in_.exchange(kClosed) == kClosed) return;
  if (!here()) return;  // the parent's to close
  UnwatchGroup(&watch_);
  if (part_of_ != nullptr) part_of_->Remove(this);
  const bool messages_pending = messages_.Seal();
  const bool calls = queue_.issue().held() || messages_pending;
  if (queue_.queued() > 0 && queue_.queued() == refusals_.pending() && !calls) {
    NodeGroup::Fail(refusals_.Cause(*this));
  } else if (queue_.queued() > 0 || calls) {
    NodeGroup::Abort(kClosedWithOperations);
  }
  EndOperations();
  refusals_.Close();
  gate().Close();
  const auto alone = [&] {
    return gate().empty() && !queue_.stepping();
  };
  Deadline patience{kCloseNs};
  WaitUntil(queue_.woken(), policy_, patience, alone, [] { return false; });
  RankControl& self = state_.self();
  state_.lifecycle.Record({.kind = LifecycleKind::kLeaving, .epoch = state_.epoch});
  self.state.store(RankState::kLeaving, std::memory_order_seq_cst);
  NotifyAll(self.waiters);
  std::vector<void*> blocks = messages_.TakeBlocks();
  for (void* const block : shared_memory_.TakeAll())
    blocks.push_back(block);
  ReclaimLater(state_, std::move(blocks), failed_splits_.TakeAll());
  state_.peers.clear();
  state_.entrants.reset();
  RemoveProgressUser(&queue_);
}

}  // namespace weft
