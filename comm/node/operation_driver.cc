// The ends of operations are rare and their causes many, so this source is about order: what may be the cause is asked in the
// order in which one hides another. A rank that has ended is named before a rank that is late, since others wait for the
// dead one too; what a rank has published is looked at again after its process was found dead, since it may have done its
// part in between; and no buffer is given back before the peers that may be in it have left.
#include "comm/node/operation_driver.h"

#include <algorithm>
#include <optional>

#include "base/interrupt.h"
#include "base/status.h"
#include "base/text.h"
#include "comm/group/progress.h"
#include "comm/node/heap.h"
#include "comm/node/long_wait.h"

namespace weft {

void OperationDriver::CountStage() {
  if (state_.staging.base() == nullptr || counters_.holds_stage()) return;
  counters_.HoldsStage(ProcessHeap().BlockBytes(state_.staging.base()));
}

bool OperationDriver::Finish(Operation& operation, Operation::Result result, int64_t timeout_ns,
                             absl::Status* failure) {
  Deadline deadline{timeout_ns};
  while (result == Operation::Result::kBlocked && AwaitTarget(operation, deadline))
    result = operation.Poll();
  counters_.Waited(deadline.slow_ns);
  if (result == Operation::Result::kDone) return true;
  if (result == Operation::Result::kBlocked) result = Operation::Result::kFailed;
  *failure = Conclude(operation, result);
  if (TakeInterrupt()) *failure = AsInterrupted(*failure);
  return false;
}

// Spinning for a peer on the CPU of this rank only keeps it from running.
WaitPolicy OperationDriver::PolicyTowards(int peer) const {
  WaitPolicy policy = policy_;
  if (state_.SharesCpu(peer)) policy.spins = 0;
  return policy;
}

// Waits for operation.target(); false if the operation must end, then the group has failed.
bool OperationDriver::AwaitTarget(const Operation& operation, Deadline& deadline) {
  const WaitTarget target = operation.target();
  const auto reached = [&] {
    return target.Reached();
  };
  if (ProbeBriefly(std::min(policy_.spins, kBriefProbes), reached)) return true;
  state_.Wake();
  spread_.Look(state_);
  switch (WaitUntil(state_.WaitersOf(target), PolicyTowards(target.peer), deadline, reached, [&] {
    return Hopeless(operation, target, /*late=*/false) || EndedByInterrupt(operation);
  })) {
    case WaitResult::kReady:
      return true;
    case WaitResult::kStopped:
      return false;
    case WaitResult::kDeadline:
      MustEnd(operation, target, true, deadline.timeout_ns);
      return false;
  }
  return false;
}

// The caller of a blocking operation will not wait for it any longer, and nobody else would end it.
bool OperationDriver::EndedByInterrupt(const Operation& operation) {
  if (!Interrupted()) return false;
  failures_.Raise(failures_.Interrupted(operation));
  return true;
}

bool OperationDriver::MustEnd(const Operation& operation, const WaitTarget& target, bool late,
                              int64_t timeout_ns) {
  if (late) checked_ns_ = programs_asked_ns_ = 0;  // whoever is lost is named before who is late
  if (Hopeless(operation, target, late)) return true;
  if (late) failures_.Raise(failures_.Timeout(operation, target, timeout_ns));
  return late;
}

// The group has ended, or does, because of what the others show.
bool OperationDriver::Hopeless(const Operation& operation, const WaitTarget& target, bool late) {
  if (state_.aborted()) return true;
  messages_.StepUnderLocks();
  const int64_t now_ns = MonotonicNs();
  if (now_ns - checked_ns_ < kCheckPeersNs) return false;
  checked_ns_ = now_ns;
  ShowLongWait(state_, operation);
  LookAfterGroups();
  const absl::Status cause = FindCause(operation, target, now_ns, late);
  if (cause.ok()) return false;
  failures_.Raise(cause);
  return true;
}

// Who was killed, or has become another program; then that ranks have called different things,
// whoever is missing; then who has gone by itself. Ok: nothing yet.
absl::Status OperationDriver::FindCause(const Operation& operation, const WaitTarget& target,
                                        int64_t now_ns, bool late) {
  const bool asks_programs = now_ns - programs_asked_ns_ >= kAskProgramNs;
  if (asks_programs) programs_asked_ns_ = now_ns;
  int leaver = -1;
  std::optional<ExitInfo> how;
  for (int peer = 0; peer < state_.size; ++peer) {
    if (peer == state_.rank || !Needs(operation, target, peer)) continue;
    const bool left = state_.HasLeft(peer);
    const std::optional<ExitInfo> exit = state_.peers[static_cast<size_t>(peer)]->Ended();
    if (!left && !exit) {
      if (!asks_programs || !state_.WasReplaced(peer) || !Needs(operation, target, peer)) continue;
      return failures_.PeerReplaced(operation, peer);
    }
    // It may have done its part after the first look and gone before the second. What it published before it went is
    // seen by now, and there will be nothing more.
    if (!Needs(operation, target, peer)) continue;
    if (!left && exit->signal > 0) return failures_.PeerLost(&operation, peer, *exit);
    if (leaver >= 0 || (!leavers_.MayBeNamed(peer, now_ns) && !late)) continue;
    leaver = peer;
    how = left ? std::nullopt : exit;
  }
  if (operation.FindOutlier() >= 0) return failures_.Mismatch(operation);
  if (leaver < 0) return absl::OkStatus();
  return how ? failures_.PeerLost(&operation, leaver, *how) : failures_.PeerLeft(operation, leaver);
}

// Whether the operation waits for something that `peer` has still to do. A rank may go when it has done its part.
bool OperationDriver::Needs(const Operation& operation, const WaitTarget& target, int peer) const {
  const bool awaited = peer == target.peer || target.of_all;
  if (awaited && !target.Reached()) return true;
  const Arrival& line = state_.control(peer).arrivals[operation.sequence() % kWindow];
  const uint32_t arrived = line.sequence.load(std::memory_order_acquire);
  return static_cast<int32_t>(arrived - static_cast<uint32_t>(operation.sequence())) < 0;
}

absl::Status OperationDriver::Conclude(const Operation& operation, Operation::Result result) {
  const bool well = result == Operation::Result::kDone;
  NoteEnd(state_, counters_, operation.prepared(), operation.sequence(), well);
  CountStage();
  if (well) return absl::OkStatus();
  if (result == Operation::Result::kRefused) {
    const Collective& call = operation.call();
    return Annotate(operation.error(), StrCat(CallName(call.kind, call.purpose.record), ": "));
  }
  return ConcludeFailed(operation);
}

// True if the process of `peer` has ended: its memory goes a moment before that can be told.
bool OperationDriver::AwaitEnd(int peer) {
  NodePeer& process = *state_.peers[static_cast<size_t>(peer)];
  Deadline patience{kQuiesceNs / 4};
  const auto ended = [&] {
    return process.Ended().has_value();
  };
  return WaitUntil(woken_, WaitPolicy{.spins = 0, .yields = 1000}, patience, ended,
                   [&] { return state_.aborted(); }) == WaitResult::kReady;
}

absl::Status OperationDriver::ConcludeFailed(const Operation& operation) {
  if (operation.outlier_rank() >= 0) {
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
  const Collective& call = operation.call();
  absl::Status cause = WithOperation(failures_.Cause(), CallName(call.kind, call.purpose.record),
                                     static_cast<int64_t>(operation.sequence()));
  const std::string quarantined = QuiescePeers(operation);
  report_.Tell(cause);
  if (quarantined.empty()) return cause;
  return MakeError(ResultOf(cause), FieldsOf(cause), std::string(cause.message()) + quarantined);
}

// One that cannot answer costs the blocks of all buffers: there is no need to wait for the others then.
std::string OperationDriver::QuiescePeers(const Operation& operation) {
  if (!operation.exposed()) return "";
  const void* const buffers[] = {operation.call().in, operation.call().out};
  for (int peer = 0; peer < state_.size; ++peer) {
    if (peer == state_.rank) continue;
    RankControl& control = state_.control(peer);
    const PeerAccess access{peer, *state_.peers[static_cast<size_t>(peer)], control.peer_access,
                            control.waiters};
    std::string quarantined = Quiesce(access, buffers, policy_, quiesce_patience_);
    if (!quarantined.empty()) return quarantined;
  }
  return "";
}

}  // namespace weft
