// Whoever waits for a message steps all messages of its rank, since what holds up its own may be any of them: so the engine has
// no queue of steps and no thread, only a lock that is never held for long. What makes it more than a loop is that callbacks
// may do anything, even close the group: they are collected while the lock is held and run after it, by a thread that has left
// the group's gate meanwhile and may find it closed when it comes back.
#include "comm/node/message_engine.h"

#include <algorithm>
#include <bitset>
#include <optional>
#include <utility>

#include "base/interrupt.h"
#include "base/status.h"
#include "comm/group/progress.h"
#include "comm/node/long_wait.h"
#include "comm/node/message_work.h"
#include "comm/node/node_group.h"
#include "comm/node/peer_access.h"
#include "fmt/format.h"

namespace weft {
namespace {

constexpr int64_t kLookNs = 5'000'000;
constexpr int64_t kHelpNs = 200'000;  // between looks at collectives, where no thread does it
constexpr int64_t kForeverNs = INT64_MAX / 4;

using Operations = std::span<MessageOperation* const>;

bool AllEnded(Operations operations) {
  return std::all_of(operations.begin(), operations.end(),
                     [](const MessageOperation* operation) { return operation->ended(); });
}

absl::Status Busy(const MessageOperation& operation, const std::string& group_name) {
  return MakeError(WEFT_TIMEOUT, fmt::format("{} on group {}: another thread's call did not end",
                                             MessageName(operation.message()), group_name));
}

// Whom the operation cannot do without; WEFT_ANY_SOURCE: anybody may do.
int Needs(const MessageOperation& operation) {
  return operation.source >= 0 ? operation.source : operation.message().peer;
}

}  // namespace

// A rank that will not take part any more.
struct MessageEngine::Loss {
  int peer;
  std::optional<ExitInfo> exit;  // none: it has left in good order,
  bool replaced = false;         // or has become another program
};

MessageEngine::MessageEngine(NodeGroup& group, const NodeState& state,
                             const std::string& group_name, FailureReporter& failures,
                             EndReport& report, GroupCounters& counters, const WaitPolicy& policy)
    : group_(group),
      state_(state),
      failures_(failures),
      report_(report),
      counters_(counters),
      sentences_(state, group_name, failures),
      policy_(policy),
      caller_drives_(CallerDrivesProgress()),
      outbox_(state),
      inbox_(state, group_name),
      ring_(state.segment.message_ring(state.rank)) {}

// Whoever holds the lock releases it soon.
void MessageEngine::Acquire() {
  Deadline patience{kForeverNs};
  while (!lock_.Acquire(policy_, patience)) {
  }
}

// Holds the lock for a scope. Callbacks run after it, with no lock held, and not as a visitor of the group: they may
// close it.
class WEFT_SCOPED_CAPABILITY MessageEngine::Turn {
 public:
  // The lock is held.
  explicit Turn(MessageEngine& engine) WEFT_REQUIRES(engine.lock_) : engine_(&engine) {}

  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  ~Turn() WEFT_RELEASE() {
    if (engine_ != nullptr) engine_->lock_.Release();
  }

  // Releases the lock; whose callbacks are to run now.
  EndedMessages End() WEFT_RELEASE() {
    EndedMessages ended = engine_->TakeEnded();
    std::exchange(engine_, nullptr)->lock_.Release();
    return ended;
  }

 private:
  MessageEngine* engine_;
};

// For a visitor; false if the group was closed meanwhile, and the caller is none any more.
bool MessageEngine::CallBackFromOutside(EndedMessages ended) {
  if (ended.empty()) return true;
  group_.gate().Leave();
  ended.CallBack();
  return group_.gate().Enter();
}

template <typename Visit>
void MessageEngine::ForEach(Visit&& visit) const {
  outbox_.ForEach(visit);
  inbox_.ForEach(visit);
}

void MessageEngine::End(MessageOperation& operation, const absl::Status& found) {
  const Message& message = operation.message();
  absl::Status status =
      found.ok() ? absl::OkStatus() : WithOperation(found, MessageName(message), /*sequence=*/-1);
  EndWait();
  if (status.ok() && !message.is_send) TellFacts(message, operation.source, operation.facts);
  if (!message.is_probe) counters_.MessageEnded(message.is_send, operation.bytes(), status.ok());
  MessageRing::SetState(operation.recorded,
                        status.ok() ? MessageState::kDone : MessageState::kFailed);
  if (operation.work != nullptr) {
    if (auto work = operation.work->OperationEnded(status)) {
      ended_works_.Add(std::move(work));
      works_.fetch_sub(1, std::memory_order_seq_cst);
    }
  }
  operation.End(std::move(status));
}

// The group has ended, or ends here. Operations whose buffers peers may read end when those have let go.
void MessageEngine::FailAll() {
  if (outbox_.idle() && inbox_.idle()) return;
  const absl::Status cause = failures_.Cause();
  report_.Tell(cause);
  Deadline patience{kQuiesceNs};
  MessageList all;
  outbox_.TakeAll(&all);
  inbox_.TakeAll(&all);
  while (MessageOperation* const operation = all.PopFront()) {
    const std::string quarantined = QuiescePeer(*operation, patience);
    End(*operation, quarantined.empty() ? cause
                                        : MakeError(ResultOf(cause), FieldsOf(cause),
                                                    std::string(cause.message()) + quarantined));
  }
  NotifyAll(state_.segment.messages(state_.rank).waiters);
}

// The receiver may be copying from the buffer.
std::string MessageEngine::QuiescePeer(const MessageOperation& send, Deadline& patience) {
  const int peer = send.message().peer;
  if (!send.exposed || peer == state_.rank) return "";
  MessageControl& control = state_.segment.messages(peer);
  const PeerAccess access{peer, *state_.peers[static_cast<size_t>(peer)], control.peer_access,
                          control.waiters};
  const void* const buffers[] = {send.message().in};
  return Quiesce(access, buffers, policy_, patience);
}

void MessageEngine::Settle(const absl::Status& status, MessageList* ended) {
  const bool any = !ended->empty();
  while (MessageOperation* const operation = ended->PopFront())
    End(*operation, absl::OkStatus());
  if (any) NotifyAll(state_.segment.messages(state_.rank).waiters);
  if (status.ok()) return;
  if (!state_.aborted()) {
    failures_.Raise(ResultOf(status) == WEFT_MISMATCH || ResultOf(status) == WEFT_PEER_LOST
                        ? status
                        : sentences_.Local(status));
  }
  FailAll();
}

void MessageEngine::TakeUp(Operations operations) {
  MessageList ended;
  absl::Status status;
  size_t taken = 0;
  for (; taken < operations.size() && status.ok(); ++taken) {
    MessageOperation& operation = *operations[taken];
    operation.recorded = ring_.Record(RecorderTicks(), operation.message());
    if (operation.deadline.at_ns > 0) look_ns_ = std::min(look_ns_, operation.deadline.at_ns);
    if (!operation.message().is_send) {
      status = inbox_.Add(operation, &ended);
      continue;
    }
    if (state_.HasLeft(operation.message().peer)) {
      status = sentences_.PeerLeft(operation.message(), operation.message().peer);
      break;
    }
    outbox_.Add(operation, &ended);
  }
  Settle(status, &ended);
  for (size_t i = taken; i < operations.size(); ++i) {
    MessageOperation& operation = *operations[i];
    if (operation.recorded.entry == nullptr) {
      operation.recorded = ring_.Record(RecorderTicks(), operation.message());
    }
    End(operation, failures_.Cause());
  }
}

bool MessageEngine::Step() {
  bool moved = false;
  MessageList ended;
  if (state_.aborted()) {
    FailAll();
    return false;
  }
  absl::Status status = outbox_.Step(&ended, &moved);
  if (status.ok()) status = inbox_.Step(&ended, &moved);
  if (moved) EndWait();
  Settle(status, &ended);
  return moved;
}

bool MessageEngine::AnyLate(int64_t now_ns) {
  bool late = false;
  int64_t next_ns = now_ns + kLookNs;
  ForEach([&](MessageOperation& operation) {
    if (operation.deadline.Passed(now_ns)) {
      late = true;
    } else {
      next_ns = std::min(next_ns, operation.deadline.at_ns);
    }
  });
  look_ns_ = next_ns;
  return late;
}

// The ranks that pending operations need and that will do nothing more, as far as they may be
// named. What they run is asked now and then only.
std::vector<MessageEngine::Loss> MessageEngine::FindLosses(bool ask_programs, int64_t now_ns,
                                                           bool late) {
  std::bitset<kNodeRanksMax> needed;
  ForEach([&](const MessageOperation& operation) {
    if (Needs(operation) == WEFT_ANY_SOURCE) {
      needed.set();
    } else {
      needed.set(static_cast<size_t>(Needs(operation)));
    }
  });
  std::vector<Loss> losses;
  for (int peer = 0; peer < state_.size; ++peer) {
    if (peer == state_.rank || !needed[static_cast<size_t>(peer)]) continue;
    const bool left = state_.HasLeft(peer);
    std::optional<ExitInfo> exit;
    if (!left) exit = state_.peers[static_cast<size_t>(peer)]->Ended();
    const bool replaced = !left && !exit && ask_programs && state_.WasReplaced(peer);
    const bool by_itself = left || (exit && exit->signal <= 0);
    if (by_itself && !leavers_.MayBeNamed(peer, now_ns) && !late) continue;
    if (left || exit || replaced) losses.push_back({peer, exit, replaced});
  }
  return losses;
}

absl::Status MessageEngine::LossOf(const MessageOperation& operation,
                                   const std::vector<Loss>& losses) const {
  const int needs = Needs(operation);
  size_t left = 0;
  for (const Loss& loss : losses) {
    if (needs != WEFT_ANY_SOURCE && needs != loss.peer) continue;
    if (loss.exit) return sentences_.PeerLost(operation, loss.peer, *loss.exit);
    if (loss.replaced) return sentences_.PeerReplaced(operation.message(), loss.peer);
    if (needs == loss.peer) return sentences_.PeerLeft(operation.message(), loss.peer);
    ++left;
  }
  // A rank may go when it has sent what it had to; only without any other rank is there no hope.
  if (left > 0 && left + 1 == state_.peers.size()) return sentences_.AllLeft(operation.message());
  return absl::OkStatus();
}

absl::Status MessageEngine::Diagnose(const std::vector<Loss>& losses, int64_t now_ns) const {
  absl::Status found;
  ForEach([&](const MessageOperation& operation) {
    if (found.ok()) found = LossOf(operation, losses);
  });
  ForEach([&](MessageOperation& operation) {
    if (found.ok() && operation.deadline.Passed(now_ns)) found = sentences_.Timeout(operation);
  });
  return found;
}

// For whom the oldest operation waits, of those that have a peer; how far all have come.
void MessageEngine::ShowWait() {
  std::optional<int> peer;
  bool begun = false;
  ForEach([&](const MessageOperation& operation) {
    const bool first = !peer || *peer == WEFT_ANY_SOURCE;
    if (!first || Needs(operation) == state_.rank) return;
    peer = Needs(operation);
    begun = operation.source >= 0 || operation.moved > 0;
  });
  ForEach([&](const MessageOperation& operation) {
    if (operation.moved == 0) return;
    MessageRing::SetCourse(operation.recorded, operation.moved, operation.source);
  });
  if (!peer) return;
  counters_.MessagesWait(/*again=*/shows_wait_, begun);
  ShowLongMessageWait(state_, *peer);
  shows_wait_ = true;
}

// A message has moved or ended: what follows is another wait.
void MessageEngine::EndShownWait() {
  shows_wait_ = false;
  ClearLongMessageWait(state_);
}

// Every few milliseconds: deadlines, and ranks that ended or left. What they had sent before counts.
// `shows_wait`: somebody waits for what is pending.
void MessageEngine::LookAtPeers(bool shows_wait) {
  if (outbox_.idle() && inbox_.idle()) return;
  const int64_t now_ns = MonotonicNs();
  if (now_ns < look_ns_) return;
  if (shows_wait) ShowWait();
  LookAfterGroups();
  const bool late = AnyLate(now_ns);
  const bool ask_programs = late || now_ns - programs_asked_ns_ >= kAskProgramNs;
  if (ask_programs) programs_asked_ns_ = now_ns;
  const std::vector<Loss> losses = FindLosses(ask_programs, now_ns, late);
  if (!late && losses.empty()) return;
  Step();
  if (state_.aborted()) return FailAll();
  if (const absl::Status found = Diagnose(losses, now_ns); !found.ok()) {
    failures_.Raise(found);
    FailAll();
  }
}

// All that can fail for this rank alone, before a peer can see anything of the operations.
absl::Status MessageEngine::Admit(Operations operations) {
  if (sealed_) return group_.Closed();
  if (state_.aborted()) return group_.Refusal();
  for (const MessageOperation* const operation : operations) {
    const Message& message = operation->message();
    if (message.is_send) WEFT_RETURN_IF_ERROR(outbox_.Prepare(message.peer));
  }
  return absl::OkStatus();
}

absl::Status MessageEngine::Run(Operations operations) {
  Deadline patience{operations[0]->deadline.timeout_ns};
  if (!lock_.Acquire(policy_, patience)) return Busy(*operations[0], group_.name());
  Turn turn(*this);
  WEFT_RETURN_IF_ERROR(Admit(operations));
  TakeUp(operations);
  turn.End().CallBack();
  Deadline forever{kForeverNs};
  bool interrupted = false;
  while (!AllEnded(operations) && !Await(operations, forever)) {
    if (!TakeInterrupt()) return group_.Forked();
    interrupted = true;
    group_.Abort("its program interrupted a message (weft_set_interrupt)");
  }
  for (const MessageOperation* const operation : operations) {
    const absl::Status& status = operation->status();
    if (status.ok()) continue;
    return interrupted ? AsInterrupted(status) : status;
  }
  return absl::OkStatus();
}

// Not recorded: a program that asks again and again would leave nothing else in the ring.
absl::StatusOr<bool> MessageEngine::TryProbe(MessageOperation& probe) {
  MessageOperation* const operations[] = {&probe};
  Deadline patience{probe.deadline.timeout_ns};
  if (!lock_.Acquire(policy_, patience)) return Busy(probe, group_.name());
  Turn turn(*this);
  WEFT_RETURN_IF_ERROR(Admit(operations));
  MessageList ended;
  Settle(inbox_.Add(probe, &ended), &ended);
  if (!probe.ended() && !Step() && !probe.ended()) LookAtPeers(/*shows_wait=*/false);
  const bool found = probe.ended();
  if (!found) inbox_.Withdraw(probe);
  turn.End().CallBack();
  if (!found) return false;
  WEFT_RETURN_IF_ERROR(probe.status());
  return true;
}

absl::Status MessageEngine::Start(const std::shared_ptr<MessageWork>& work) {
  Acquire();
  Turn turn(*this);
  WEFT_RETURN_IF_ERROR(Admit(work->operations()));
  work->Hold(work);
  works_.fetch_add(1, std::memory_order_seq_cst);
  TakeUp(work->operations());
  if (!AllEnded(work->operations())) Step();
  turn.End().CallBack();
  return absl::OkStatus();
}

bool MessageEngine::Await(Operations operations, Deadline& patience) {
  if (!group_.gate().Enter()) return AllEnded(operations);  // closed: all have ended
  MessageControl& self = state_.segment.messages(state_.rank);
  const auto all_ended = [&] {
    return AllEnded(operations);
  };
  Deadline forever{kForeverNs};
  // Not before it has waited once: looking costs system calls.
  for (bool waited = false; !AllEnded(operations); waited = true) {
    const uint32_t seen = self.events.load(std::memory_order_seq_cst);
    if (!lock_.AcquireUnless(policy_, forever, all_ended)) break;
    Turn turn(*this);
    const bool moved = Step();
    if (!moved && waited) LookAtPeers(/*shows_wait=*/true);
    if (!CallBackFromOutside(turn.End())) return AllEnded(operations);
    if (moved || AllEnded(operations)) continue;
    const bool helps = caller_drives_ && group_.queue().queued() > 0;
    if (helps && !HelpFromOutside()) return AllEnded(operations);
    const int64_t started_ns = MonotonicNs();
    if (patience.Passed(started_ns) || Interrupted()) break;
    const auto changed = [&] {
      return self.events.load(std::memory_order_seq_cst) != seen || AllEnded(operations);
    };
    const auto pause = [&] {
      const int64_t span_ns = helps ? kHelpNs : kLookNs;
      return state_.aborted() || MonotonicNs() - started_ns > span_ns;
    };
    WaitUntil(self.waiters, policy_, patience, changed, pause);
  }
  group_.gate().Leave();
  return AllEnded(operations);
}

// As CallBackFromOutside: what is stepped has callbacks too.
bool MessageEngine::HelpFromOutside() {
  WaitTarget unused;
  group_.gate().Leave();
  group_.queue().TryStep(&unused);
  return group_.gate().Enter();
}

bool MessageEngine::TryStep(WaitTarget* target) {
  if (!has_works() || !group_.gate().Enter()) return false;
  const MessageControl& self = state_.segment.messages(state_.rank);
  const uint32_t seen = self.events.load(std::memory_order_seq_cst);
  *target = WaitTarget{};
  bool inside = true;
  if (lock_.TryAcquire()) {
    Turn turn(*this);
    const bool moved = Step();
    if (!moved) LookAtPeers(/*shows_wait=*/true);
    *target = WaitTarget{.peer = state_.rank,
                         .word = &self.events,
                         .want = moved ? seen : seen + 1,
                         .of_messages = true};
    inside = CallBackFromOutside(turn.End());
  }
  if (inside) group_.gate().Leave();
  return has_works();
}

void MessageEngine::StepUnderLocks() {
  if (!caller_drives_ || !has_works() || !lock_.TryAcquire()) return;
  if (!Step()) LookAtPeers(/*shows_wait=*/true);
  lock_.Release();
}

void MessageEngine::RunEndedCallbacks() {
  Acquire();
  Turn turn(*this);
  turn.End().CallBack();
}

std::vector<void*> MessageEngine::TakeBlocks() {
  Acquire();
  std::vector<void*> blocks = outbox_.TakeBlocks();
  lock_.Release();
  return blocks;
}

void MessageEngine::EndAll() {
  Acquire();
  Turn turn(*this);
  Step();
  turn.End().CallBack();
}

bool MessageEngine::Seal() {
  Acquire();
  sealed_ = true;
  const bool pending = !outbox_.idle() || !inbox_.idle();
  lock_.Release();
  return pending;
}

}  // namespace weft
