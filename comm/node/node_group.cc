#include "comm/node/node_group.h"

#include <algorithm>
#include <list>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/options.h"
#include "base/status.h"
#include "comm/group/fork.h"
#include "comm/group/progress.h"
#include "comm/node/explain.h"
#include "comm/node/heap.h"
#include "comm/node/long_wait.h"
#include "comm/node/message_work.h"
#include "comm/node/node_work.h"
#include "comm/node/remains.h"
#include "comm/node/single_rank.h"
#include "fmt/format.h"

namespace weft {
namespace {

constexpr int64_t kDisengageNs = 1'000'000'000;
constexpr std::string_view kClosedWithOperations = "it was closed with operations under way";

// What the group's tuning says, unless the user does.
WaitPolicy PolicyOf(const Tuning& tuning) {
  const Options& options = GetOptions();
  WaitPolicy policy{.spins = tuning.spins, .yields = tuning.yields};
  if (options.spin_count >= 0) policy.spins = static_cast<uint32_t>(options.spin_count);
  if (options.yield_count >= 0) policy.yields = static_cast<uint32_t>(options.yield_count);
  return policy;
}

GroupOptions WithDefaults(GroupOptions options) {
  if (options.timeout_ns <= 0) {
    options.timeout_ns = static_cast<int64_t>(GetOptions().timeout_s * 1e9);
  }
  return options;
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

NodeGroup::NodeGroup(NodeState state, GroupOptions options)
    : state_(std::move(state)),
      options_(WithDefaults(std::move(options))),
      heap_(ProcessHeap()),
      policy_(PolicyOf(state_.tuning)),
      failures_(state_, options_.name),
      disengage_patience_{kDisengageNs},
      dump_(state_, options_.name),
      notices_(state_.segment, state_.rank),
      messages_(*this, state_, options_.name, failures_, policy_),
      caller_drives_(CallerDrivesProgress()) {
  state_.known_done.assign(static_cast<size_t>(state_.size), 0);
  state_.slots = Slots(state_.size == kPingPongRanks && state_.tuning.combine == 0);
  RankControl& self = state_.self();
  const NodePeer::Identity& identity = state_.peers[static_cast<size_t>(state_.rank)]->identity();
  self.pid = identity.pid;
  self.start_time = identity.start_time;
  self.cpu.store(kUnknownCpu, std::memory_order_relaxed);
  AddProgressUser();  // may fail: nobody has seen the rank
  self.state.store(RankState::kJoined, std::memory_order_seq_cst);
  NotifyAll(self.bell);
  if (state_.rank == 0) counters_.Holds(Segment::Bytes(state_.size, state_.tuning.combine != 0));
}

NodeGroup::~NodeGroup() {
  NodeGroup::Close();
}

int64_t NodeGroup::TimeoutOf(const Collective& call) const {
  return call.timeout_ns > 0 ? call.timeout_ns : options_.timeout_ns;
}

absl::Status NodeGroup::Closed() const {
  if (!here()) return Forked();
  return MakeError(WEFT_INVALID_USAGE, fmt::format("group {} was closed", options_.name));
}

bool NodeGroup::AwaitIssueWord(Deadline& deadline) {
  const auto take = [&] {
    return issue_.TryTake();
  };
  const auto never = [] {
    return false;
  };
  return WaitUntil(local_, policy_, deadline, take, never) == WaitResult::kReady;
}

void NodeGroup::Release(std::atomic<uint32_t>& word) {
  word.store(0, std::memory_order_seq_cst);
  NotifyAll(local_);
}

std::string NodeGroup::Explain(const Collective& call, BufferKind buffers) const {
  return ExplainCollective(call, buffers, state_);
}

absl::Status NodeGroup::Forked() const {
  return MakeError(WEFT_FORKED, {.group = options_.name},
                   fmt::format("group {} was made by the parent of this forked process, which goes "
                               "on with it; a child that is to use weft must be forked before the "
                               "parent makes groups or shared memory",
                               options_.name));
}

absl::Status NodeGroup::error() {
  if (!origin_.here()) return Forked();
  return failures_.Cause();
}

// The first call to learn of the end returns its cause, later ones that the group is of no use.
absl::Status NodeGroup::Refusal() {
  if (!origin_.here()) return Forked();
  if (closed()) return Closed();
  absl::Status cause = failures_.Cause();
  state_.self().acknowledged.store(1, std::memory_order_seq_cst);
  NotifyAll(state_.self().bell);
  if (!reported_.exchange(true)) {
    dump_.WriteOnce(cause);
    return cause;
  }
  return MakeError(WEFT_ABORTED, FieldsOf(cause),
                   fmt::format("group {} has ended and takes no more operations: {}", options_.name,
                               std::string(cause.message())));
}

// What can fail for this rank alone before its peers see anything. issue_ is held.
absl::Status NodeGroup::Equip(const PreparedCall& prepared) {
  const bool stages = prepared.size == CallSize::kRingSlot && state_.staging.base() == nullptr;
  return stages && !has_operations() ? state_.staging.Make(state_) : absl::OkStatus();
}

// On Ok issue_ is held.
absl::Status NodeGroup::TakeTurn(const Collective& call, Deadline& turn) {
  if (!origin_.here()) return Forked();  // whoever holds issue_ may be of the parent only
  if (closed()) return Closed();
  if (!issue_.TryTake() && !AwaitIssueWord(turn)) {
    return MakeError(WEFT_TIMEOUT, fmt::format("{} on group {}: another thread's call did not end",
                                               OpKindName(call.kind), options_.name));
  }
  absl::Status refusal = Usable() ? CheckAlgorithm(call, state_) : Refusal();
  if (!refusal.ok()) LetGo();
  return refusal;
}

absl::Status NodeGroup::Run(const Collective& call) {
  Deadline turn{TimeoutOf(call)};
  WEFT_RETURN_IF_ERROR(TakeTurn(call, turn));
  IssueTurn held(*this);
  if (!has_operations()) {
    absl::Status status = RunPinned(call);
    held.End();
    messages_.RunCallbacks();
    return status;
  }
  const auto work =
      std::make_shared<NodeWork>(shared_from_this(), PreparedCall(call, state_), TimeoutOf(call));
  Begin(*work);
  queue_.Add(work);
  held.End();
  return work->Wait(0);
}

// Inlined into its two callers: the steady path is short, and a good part of it would be calls.
[[gnu::always_inline]] inline bool NodeGroup::RunNow(const PreparedCall& prepared,
                                                     int64_t timeout_ns, absl::Status* failure) {
  const uint64_t sequence = counters_.Start();
  uint32_t cpu = 0;
  state_.recorder.Record(sequence, RecorderTicks(&cpu), prepared.recorded);
  state_.NoteCpu(cpu);
  if (prepared.size == CallSize::kAlone) {
    FinishSingleRank(prepared, sequence, state_);
  } else {
    Operation operation(prepared, sequence, state_);
    Operation::Result result = operation.Poll();
    if (result == Operation::Result::kBlocked) result = FinishBlocked(operation, timeout_ns);
    if (result != Operation::Result::kDone) {
      *failure = Conclude(operation, result);
      return false;
    }
  }
  NoteEnd(prepared, sequence, true);
  return true;
}

Operation::Result NodeGroup::FinishBlocked(Operation& operation, int64_t timeout_ns) {
  Deadline deadline{timeout_ns};
  Operation::Result result = Operation::Result::kBlocked;
  while (result == Operation::Result::kBlocked && AwaitTarget(operation, deadline))
    result = operation.Poll();
  counters_.Waited(deadline.slow_ns);
  return result == Operation::Result::kBlocked ? Operation::Result::kFailed : result;
}

bool NodeGroup::RunAgain(const CallKey& key, const void* in, void* out, absl::Status* failure) {
  if (!issue_.TryTake()) return false;
  IssueTurn held(*this);
  const PreparedCall* const prepared = prepared_.Find(key, in, out);
  const Heap& heap = heap_;
  // Registered memory must be pinned.
  const bool usual = prepared != nullptr && !heap.MayBeRegistered(in) &&
                     !heap.MayBeRegistered(out) && !has_operations() && Usable();
  const bool well = usual && RunNow(*prepared, options_.timeout_ns, failure);
  held.End();
  if (usual) messages_.RunCallbacks();
  return well;
}

absl::Status NodeGroup::RunPinned(const Collective& call) {
  const RegistrationPin in(heap_, call.in);
  const RegistrationPin out(heap_, call.out);
  std::list<RegistrationPin> parts;
  if (TraitsOf(call.kind).iov) PinParts(*call.layout, &parts);
  PreparedCall prepared(call, state_);
  WEFT_RETURN_IF_ERROR(Equip(prepared));
  absl::Status failure;
  if (RunNow(prepared, TimeoutOf(call), &failure) && IsPlain(call)) {
    prepared_.Keep(std::move(prepared));
  }
  return failure;
}

// Spinning for a peer on the CPU of this rank only keeps it from running.
WaitPolicy NodeGroup::PolicyTowards(int peer) const {
  WaitPolicy policy = policy_;
  if (state_.SharesCpu(peer)) policy.spins = 0;
  return policy;
}

bool NodeGroup::AwaitTarget(const Operation& operation, Deadline& deadline) {
  const WaitTarget target = operation.target();
  const auto reached = [&] {
    return target.Reached();
  };
  if (ProbeBriefly(std::min(policy_.spins, kBriefProbes), reached)) return true;
  state_.Wake();
  spread_.Look(state_);
  switch (WaitUntil(state_.EventsOf(target), PolicyTowards(target.peer), deadline, reached,
                    [&] { return Hopeless(operation, target); })) {
    case WaitResult::kReady:
      return true;
    case WaitResult::kStopped:
      return false;
    case WaitResult::kDeadline:
      checked_ns_.store(
          0, std::memory_order_relaxed);  // whoever has ended is named before who is late
      if (Hopeless(operation, target)) return false;
      failures_.Raise(failures_.Timeout(operation, target, deadline.timeout_ns));
      return false;
  }
  return false;
}

bool NodeGroup::Hopeless(const Operation& operation, const WaitTarget& target) {
  if (state_.aborted()) return true;
  messages_.StepUnderWords();
  const int64_t now_ns = MonotonicNs();
  if (now_ns - checked_ns_.load(std::memory_order_relaxed) < kCheckPeersNs) return false;
  checked_ns_.store(now_ns, std::memory_order_relaxed);
  ShowLongWait(state_, operation.sequence(), target);
  for (int peer = 0; peer < state_.size; ++peer) {
    if (peer == state_.rank || !Needs(operation, target, peer)) continue;
    const bool left =
        state_.control(peer).state.load(std::memory_order_acquire) >= RankState::kLeaving;
    const std::optional<ExitInfo> exit = state_.peers[static_cast<size_t>(peer)]->Ended();
    if (!left && !exit) continue;
    // It may have done its part after the first look and gone before the second. What it published before it went is
    // seen by now, and there will be nothing more.
    if (!Needs(operation, target, peer)) continue;
    failures_.Raise(left ? failures_.PeerLeft(operation, peer)
                         : failures_.PeerLost(&operation, peer, *exit));
    return true;
  }
  return false;
}

// Whether the operation waits for something that `peer` has still to do. A rank may go when it has done its part.
bool NodeGroup::Needs(const Operation& operation, const WaitTarget& target, int peer) const {
  const bool awaited = peer == target.peer || target.of_all;
  if (awaited && !target.Reached()) return true;
  const Arrival& line = state_.control(peer).arrivals[operation.sequence() % kWindow];
  const uint32_t arrived = line.sequence.load(std::memory_order_acquire);
  return static_cast<int32_t>(arrived - static_cast<uint32_t>(operation.sequence())) < 0;
}

// Staging is made once, and stays.
void NodeGroup::CountStage() {
  counts_stage_ = true;
  counters_.Holds(ProcessHeap().BlockBytes(state_.staging.base()));
}

GroupStats NodeGroup::stats() const {
  GroupStats stats = counters_.Read();
  stats.pending += messages_.works() + left_.load(std::memory_order_relaxed);
  stats.shared_bytes += SharedBytes();
  const auto ranks = static_cast<uint64_t>(state_.size);
  stats.private_bytes =
      sizeof(NodeGroup) + options_.name.capacity() + queued() * sizeof(NodeWork) +
      ranks * (sizeof(state_.known_done[0]) + sizeof(char*) + sizeof(std::shared_ptr<NodePeer>));
  return stats;
}

absl::Status NodeGroup::Conclude(const Operation& operation, Operation::Result result) {
  const bool well = result == Operation::Result::kDone;
  NoteEnd(operation.prepared(), operation.sequence(), well);
  if (well) return absl::OkStatus();
  if (result == Operation::Result::kRefused) {
    return Annotate(operation.error(), StrCat(OpKindName(operation.call().kind), ": "));
  }
  return ConcludeFailed(operation);
}

// True if the process of `peer` has ended: its memory goes a moment before that can be told.
bool NodeGroup::AwaitEnd(int peer) {
  NodePeer& process = *state_.peers[static_cast<size_t>(peer)];
  Deadline patience{kDisengageNs / 4};
  const auto ended = [&] {
    return process.Ended().has_value();
  };
  return WaitUntil(local_, WaitPolicy{.spins = 0, .yields = 1000}, patience, ended,
                   [&] { return state_.aborted(); }) == WaitResult::kReady;
}

absl::Status NodeGroup::ConcludeFailed(const Operation& operation) {
  if (operation.odd_rank() >= 0) {
    failures_.Raise(failures_.Mismatch(operation));
  } else if (operation.unread_peer() >= 0 &&
             state_.peers[static_cast<size_t>(operation.unread_peer())]->RunsAnotherProgram()) {
    failures_.Raise(failures_.PeerReplaced(operation, operation.unread_peer()));
  } else if (operation.unread_peer() >= 0 && AwaitEnd(operation.unread_peer())) {
    failures_.Raise(
        failures_.PeerLost(&operation, operation.unread_peer(),
                           *state_.peers[static_cast<size_t>(operation.unread_peer())]->Ended()));
  } else if (!operation.error().ok() && !state_.aborted()) {
    failures_.Raise(failures_.Local(operation, operation.error()));
  }
  absl::Status cause = failures_.Cause();
  const std::string quarantined = Disengage(operation);
  NoteFailure(cause);
  if (quarantined.empty()) return cause;
  return MakeError(ResultOf(cause), FieldsOf(cause), std::string(cause.message()) + quarantined);
}

void NodeGroup::NoteFailure(const absl::Status& cause) {
  state_.self().acknowledged.store(1, std::memory_order_seq_cst);
  NotifyAll(state_.self().bell);
  reported_.store(true);
  dump_.WriteOnce(cause);
}

// Symmetric buffers may still be in use by peers that have not seen the abort: waits for them, and
// gives the blocks up for good if one cannot answer.
std::string NodeGroup::Disengage(const Operation& operation) {
  if (!operation.exposed()) return "";
  for (int peer = 0; peer < state_.size; ++peer) {
    if (peer == state_.rank) continue;
    RankControl& control = state_.control(peer);
    NodePeer& process = *state_.peers[static_cast<size_t>(peer)];
    const auto disengaged = [&] {
      return control.engaged.load(std::memory_order_seq_cst) == 0;
    };
    const auto ended = [&] {
      return process.Ended().has_value();
    };
    if (WaitUntil(control.bell, policy_, disengage_patience_, disengaged, ended) !=
        WaitResult::kDeadline) {
      continue;
    }
    ProcessHeap().Quarantine(operation.call().in);
    ProcessHeap().Quarantine(operation.call().out);
    return fmt::format(
        "; rank {} (process {}) did not let go of this rank's buffers, those from its own "
        "heap were put in quarantine",
        peer, process.StateName());
  }
  return "";
}

int64_t NodeGroup::TimeoutOf(const Message& message) const {
  return message.timeout_ns > 0 ? message.timeout_ns : options_.timeout_ns;
}

absl::Status NodeGroup::Run(const Message& message) {
  if (!here()) return Forked();
  MessageOperation operation(message, TimeoutOf(message));
  const RegistrationPin pin(ProcessHeap(), message.is_send ? message.in : message.out);
  MessageOperation* const operations[] = {&operation};
  return messages_.Run(operations);
}

// The receive first: a message to oneself finds it posted.
absl::Status NodeGroup::RunPair(const Message& send, const Message& recv) {
  if (!here()) return Forked();
  MessageOperation sends(send, TimeoutOf(send));
  MessageOperation receives(recv, TimeoutOf(recv));
  const RegistrationPin in(ProcessHeap(), send.in);
  const RegistrationPin out(ProcessHeap(), recv.out);
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

absl::StatusOr<WorkRef> NodeGroup::StartMessages(std::span<const Message> messages) {
  if (!here()) return Forked();
  WEFT_RETURN_IF_ERROR(ReadyForProgress());
  int64_t timeout_ns[MessageWork::kOperationsMax];
  for (size_t i = 0; i < messages.size(); ++i)
    timeout_ns[i] = TimeoutOf(messages[i]);
  auto work = std::make_shared<MessageWork>(shared_from_this(), messages,
                                            std::span(timeout_ns, messages.size()));
  WEFT_RETURN_IF_ERROR(messages_.Start(work));
  if (messages_.has_works()) AskForProgress(shared_from_this(), Asking::kNow);
  return WorkRef(std::move(work));
}

// A visitor counts itself before it looks at gone_, and Close() sets gone_ before it looks at the
// count (seq_cst): either the visitor turns back, or Close() waits for it. With the step word it is the same.
bool NodeGroup::Enter() {
  if (!here()) return false;
  visitors_.fetch_add(1, std::memory_order_seq_cst);
  if (!gone_.load(std::memory_order_seq_cst)) return true;
  Leave();
  return false;
}

void NodeGroup::Leave() {
  visitors_.fetch_sub(1, std::memory_order_seq_cst);
  NotifyAll(local_);
}

void NodeGroup::Abort(std::string_view reason) {
  if (!origin_.here()) return;  // the parent's to abort
  failures_.Raise(failures_.Aborted(reason));
  NotifyAll(local_);
}

void NodeGroup::Fail(const absl::Status& cause) {
  failures_.Raise(failures_.Elsewhere(cause));
  NotifyAll(local_);
}

// Until all operations have ended, by the abort if there was one. Only what runs in this process can
// take long, a user's reduction say: that is waited for, and said.
void NodeGroup::AwaitTurnToClose() {
  const auto say = [&] {
    LogWarn("closing group ", options_.name, ": an operation of this process has not ended yet");
    return Deadline{2 * kDisengageNs};
  };
  Deadline patience{2 * kDisengageNs};
  while (!issue_.TryTake() && !AwaitIssueWord(patience))
    patience = say();
  if (QueueLeft(issue_.Seal())) NodeGroup::Abort(kClosedWithOperations);
  messages_.EndAll();
  for (WaitTarget target; TryStep(&target);) {
    if (!WaitForTurn(target, policy_, patience, nullptr)) patience = say();
  }
}

void NodeGroup::Close() {
  if (open_in_.exchange(kClosed) == kClosed) return;
  if (!origin_.here()) return;  // the parent's to close
  const bool messages_pending = messages_.Seal();
  if (has_queued() || messages_pending || issue_.held()) NodeGroup::Abort(kClosedWithOperations);
  AwaitTurnToClose();
  gone_.store(true, std::memory_order_seq_cst);
  const auto alone = [&] {
    return visitors_.load(std::memory_order_seq_cst) == 0 &&
           step_.load(std::memory_order_seq_cst) == 0;
  };
  Deadline patience{2 * kDisengageNs};
  WaitUntil(local_, policy_, patience, alone, [] { return false; });
  RankControl& self = state_.self();
  self.state.store(RankState::kLeaving, std::memory_order_seq_cst);
  NotifyAll(self.bell);
  std::vector<FailedSplit> failed_splits;
  {
    MutexLock lock(splits_mutex_);
    failed_splits.swap(failed_splits_);
  }
  std::vector<void*> blocks = messages_.TakeBlocks();
  for (void* const block : TakeShared())
    blocks.push_back(block);
  LeaveBehind(state_, std::move(blocks), std::move(failed_splits));
  state_.peers.clear();
  RemoveProgressUser(this);
}

}  // namespace weft
