// The order of an operation. The path of a small call stands here as a whole, and is inlined into Poll: a call of 8 bytes
// takes some hundred instructions in all, and each function call between would be several of them.
#include "comm/node/operation.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/status.h"
#include "base/text.h"
#include "comm/node/announced_buffers.h"
#include "comm/node/arrival_counter.h"
#include "comm/node/direct_protocol.h"
#include "comm/node/single_rank.h"
#include "fmt/format.h"

namespace weft {
namespace {

absl::Status DifferentCalls() {
  return MakeError(WEFT_MISMATCH, "the ranks called different operations");
}

}  // namespace

Operation::Result Operation::Start() {
  return Announce();
}

[[gnu::always_inline]] inline Operation::Result Operation::Announce() {
  NodeState& state = frame_.state;
  const Protocol protocol = frame_.prepared.protocol;
  if (protocol == Protocol::kSingleRank) {
    started_ = true;
    return Result::kDone;
  }
  if (state.shared_blocks->MayHold(frame_.call().out)) shared_.FindOwn(frame_);
  uint64_t credit = frame_.sequence > kWindow ? frame_.sequence - kWindow : 0;  // I1
  if (protocol != Protocol::kInline) {
    if (frame_.prepared.slot_in_ring) {
      if (absl::Status made = state.staging.Make(state); !made.ok()) return Break(std::move(made));
    }
    if (protocol == Protocol::kSlot || frame_.traits().local_counts) {
      credit = std::max(credit, slot_.Choose(frame_));  // I2
    }
  }
  if (credit > state.all_done && frame_.AwaitCredit(credit) == Result::kBlocked) {
    return Result::kBlocked;
  }

  Arrival& line = state.self().arrivals[frame_.sequence % kWindow];
  line.signature = frame_.prepared.signature;
  line.epoch = shared_.announced() ? state.epoch | kOutIsShared : state.epoch;
  line.done = static_cast<uint32_t>(state.completed);
  if (protocol == Protocol::kInline) {
    slot_.PutInLine(frame_, line);
  } else if (protocol == Protocol::kSlot) {
    line.told = {.identity = frame_.prepared.identity};
    slot_.Put(frame_);
  } else {
    DescribeBuffers(frame_, shared_, line);
    if (frame_.traits().local_counts) {
      CountExchange::PutRow(frame_, slot_);
      state.slots.Take(frame_.sequence);
    } else {
      StageEarly(line);
    }
  }
  if (frame_.prepared.announces_more) [[unlikely]] {
    Publish(line);
  } else {
    state.Publish(line.sequence, static_cast<uint32_t>(frame_.sequence));
  }
  started_ = true;
  return Result::kDone;
}

// An arrival with a factor in its line, or of ranks that count themselves in.
void Operation::Publish(Arrival& line) {
  const Collective& call = frame_.call();
  if (call.op == kOpPremulSum && frame_.traits().reduces) {
    std::memcpy(line.data + kFactorOffset, &call.custom->factor, sizeof(call.custom->factor));
  }
  frame_.state.Publish(line.sequence, static_cast<uint32_t>(frame_.sequence));
  if (frame_.prepared.meeting == Meeting::kLines) return;
  phase_ = Phase::kCounted;
  CountArrival(frame_, slot_);
}

// Nothing is announced: the operation fails when it is its turn.
Operation::Result Operation::Break(absl::Status error) {
  frame_.error = std::move(error);
  phase_ = Phase::kBroken;
  started_ = true;
  return Result::kDone;
}

// A call that will be staged for sure, if the others' buffers are like this rank's.
void Operation::StageEarly(Arrival& line) {
  const NodeState& state = frame_.state;
  const Reach own{.known = true,
                  .direct = MayBeDirect(frame_, line, state.rank),
                  .readable = state.reads_peers};
  Protocol protocol = frame_.prepared.ProtocolFor(own.direct, own.readable);
  if (protocol == Protocol::kAuto) {
    protocol = SelectProtocol(frame_.prepared.facts, state.tuning, own).protocol;
  }
  const bool written_by_others = shared_.announced() && !frame_.traits().reduces;
  if (protocol == Protocol::kStaged && !written_by_others) {
    staged_.StageEarly(frame_, LargestBlock(), line);
  }
}

Operation::Result Operation::Poll() {
  if (!started_ && Announce() == Result::kBlocked) return Result::kBlocked;
  if (frame_.prepared.protocol == Protocol::kSingleRank) {
    FinishSingleRank(frame_.prepared, frame_.sequence, frame_.state);
    return Result::kDone;
  }
  if (phase_ == Phase::kArrive) {
    if (const Result arrived = AwaitArrivals(); arrived != Result::kDone) return arrived;
    if (const Result accepted = EndArrival(); accepted != Result::kDone) return accepted;
    if (frame_.prepared.protocol != Protocol::kAuto && !shared_.is_shared()) {
      slot_.MakeResult(frame_, /*shared=*/false);
      return frame_.Finish();
    }
  }
  return shared_.is_shared() ? ContinueInPlaceOfOthers() : Continue();
}

[[gnu::always_inline]] inline Operation::Result Operation::AwaitArrivals() {
  NodeState& state = frame_.state;
  const auto want = static_cast<uint32_t>(frame_.sequence);
  for (int& peer = frame_.next_peer; peer < state.size; ++peer) {
    if (peer == state.rank) continue;
    const Arrival& line = frame_.ArrivalOf(peer);
    if (static_cast<int32_t>(line.sequence.load(std::memory_order_acquire) - want) < 0) {
      return frame_.Block(peer, line.sequence, want);
    }
    if ((line.signature != frame_.prepared.signature || line.epoch != state.epoch) &&
        !TakeSharedResult(peer, line)) {
      return RefuseArrival(peer, line);
    }
    uint32_t& known = state.known_done[static_cast<size_t>(peer)];
    if (static_cast<int32_t>(line.done - known) > 0) known = line.done;
  }
  frame_.next_peer = 0;
  return Result::kDone;
}

// True if the arrival is like this rank's, but for an out in a shared block, which is told with the epoch.
bool Operation::TakeSharedResult(int peer, const Arrival& line) {
  if (line.signature != frame_.prepared.signature ||
      (line.epoch & ~kOutIsShared) != frame_.state.epoch) {
    return false;
  }
  shared_.NoteArrival(peer);
  return true;
}

// An arrival that this rank cannot go on with.
Operation::Result Operation::RefuseArrival(int peer, const Arrival& line) {
  if (line.signature != frame_.prepared.signature) {
    frame_.outlier_rank = peer;
    return frame_.Fail(DifferentCalls());
  }
  return frame_.Fail(MakeError(
      WEFT_CORRUPT,
      fmt::format("rank {} is of membership epoch {}, this rank of {}",
                  frame_.state.GroupRank(peer), line.epoch & ~kOutIsShared, frame_.state.epoch)));
}

int Operation::FindOutlier() const {
  const auto want = static_cast<uint32_t>(frame_.sequence);
  for (int peer = 0; peer < frame_.state.size; ++peer) {
    const Arrival& line = frame_.ArrivalOf(peer);
    const bool came =
        static_cast<int32_t>(line.sequence.load(std::memory_order_acquire) - want) >= 0;
    if (peer != frame_.state.rank && came && line.signature != frame_.prepared.signature)
      return peer;
  }
  return -1;
}

// All ranks have arrived for a call whose data is not in their lines, and their signatures are this rank's: whether the
// calls are, too. Then the ranks' staging must be known, if the data is there.
Operation::Result Operation::CompareCalls() {
  NodeState& state = frame_.state;
  for (int peer = 0; peer < state.size; ++peer) {
    if (frame_.ArrivalOf(peer).told.identity == frame_.prepared.identity) continue;
    frame_.outlier_rank = peer;
    return frame_.Fail(DifferentCalls());
  }
  const bool known = !frame_.prepared.slot_in_ring || state.staging.FindAll(state, &frame_.error);
  return known ? Result::kDone : Result::kFailed;
}

// All ranks have arrived: compares what their lines could not, and finds who shares this rank's result.
[[gnu::always_inline]] inline Operation::Result Operation::EndArrival() {
  if (frame_.prepared.protocol != Protocol::kInline) {
    if (const Result compared = CompareCalls(); compared != Result::kDone) return compared;
  }
  if (shared_.any_announced()) shared_.FindSharers(frame_);
  return Result::kDone;
}

// The arrival, and what follows it, of ranks that count their arrivals at one word. Lines that are there are compared before the
// rank sleeps; once all are counted, all are.
Operation::Result Operation::AwaitCounter() {
  const NodeState& state = frame_.state;
  const bool all = AllCounted(frame_);
  const Result result = AwaitArrivals();
  if (result == Result::kFailed || (all && result == Result::kBlocked)) return result;
  if (!all) {
    const bool late = result == Result::kBlocked;
    return AwaitCounted(frame_, late ? frame_.next_peer : (state.rank + 1) % state.size);
  }
  phase_ = Phase::kArrive;
  if (const Result accepted = EndArrival(); accepted != Result::kDone) return accepted;
  if (shared_.is_shared()) return ContinueInPlaceOfOthers();
  if (frame_.prepared.protocol == Protocol::kAuto) return Move();
  if (frame_.prepared.meeting == Meeting::kLastArriver && !shared_.SeveralAnnounced()) {
    CopyLastArriversResult(frame_, slot_);
  } else {
    slot_.MakeResult(frame_, /*shared=*/false);
  }
  return frame_.Finish();
}

// What comes after the arrival.
Operation::Result Operation::Continue() {
  switch (phase_) {
    case Phase::kBroken:
      return Result::kFailed;
    case Phase::kArrive:
      return Move();
    case Phase::kCounted:
      return AwaitCounter();
    case Phase::kTurn:
      return TakeTurn();
    case Phase::kWriters:
      return shared_.AwaitWriters(frame_);
    case Phase::kDirect:
      return PollDirect(frame_);
    case Phase::kStaged:
      break;
  }
  return PollStaged();
}

// The rank may write where its peers have their results. The order of `peer_access` and the abort word is that of
// StartDirect.
Operation::Result Operation::ContinueInPlaceOfOthers() {
  NodeState& state = frame_.state;
  std::atomic<uint32_t>& peer_access = state.self().peer_access;
  peer_access.store(1, std::memory_order_seq_cst);
  const Result result =
      state.aborted() ? frame_.Fail(MakeError(WEFT_ABORTED, "aborted")) : Continue();
  state.Publish(peer_access, 0);
  if (result != Result::kBlocked) state.Wake();
  return result;
}

CallProgress Operation::Progress() const {
  const int peer = frame_.target.peer;
  if (!started_) return {.phase = CallPhase::kEntering, .waited_for = peer};
  switch (phase_) {
    case Phase::kArrive:
      return {.phase = CallPhase::kArriving, .waited_for = peer};
    case Phase::kCounted:
      return {.phase = CallPhase::kArriving, .waited_for = CallProgress::kAnyOther};
    case Phase::kTurn:
      return {.phase = CallPhase::kTurn, .waited_for = peer};
    case Phase::kWriters:
      return {.phase = CallPhase::kWriters, .waited_for = peer};
    case Phase::kDirect:
      return {.phase = CallPhase::kDirect, .waited_for = peer};
    case Phase::kStaged:
      return staged_.Progress(frame_, peer);
    case Phase::kBroken:
      break;
  }
  return {};
}

// A small result, which the ranks that share its place write one after the other.
Operation::Result Operation::TakeTurn() {
  phase_ = Phase::kTurn;
  if (shared_.AwaitTurn(frame_) == Result::kBlocked) return Result::kBlocked;
  slot_.MakeResult(frame_, /*shared=*/true);
  return EndShared();
}

// This rank has written what it has to.
Operation::Result Operation::EndShared() {
  shared_.PublishWrote(frame_);
  phase_ = Phase::kWriters;
  return shared_.AwaitWriters(frame_);
}

Operation::Result Operation::PollStaged() {
  const Result result = staged_.Poll(frame_, shared_);
  if (result != Result::kDone) return result;
  return shared_.is_shared() ? EndShared() : frame_.Finish();
}

// Decided from all arrivals, hence alike on all ranks.
Reach Operation::ReachOfAll() const {
  const NodeState& state = frame_.state;
  Reach reach{.known = true,
              .direct = true,
              .readable = true,
              .in_slots = frame_.traits().local_counts && counts_.has_data()};
  for (int peer = 0; peer < state.size; ++peer) {
    const Arrival& line = frame_.ArrivalOf(peer);
    if (reach.direct && !MayBeDirect(frame_, line, peer)) reach.direct = false;
    const bool hides = line.told.in_kind == MemoryKind::kHidden && HasInput(frame_.call(), peer);
    if (line.told.reads_peers == 0 || hides) reach.readable = false;
  }
  // Then each copies its own contribution only, and needs nobody else's.
  if (!frame_.traits().reduces && shared_.IsSharedByAll(state)) reach.direct = true;
  return reach;
}

// Elements of the largest block of any rank; the same on all ranks.
size_t Operation::LargestBlock() const {
  const Collective& call = frame_.call();
  if (frame_.traits().local_counts) return counts_.largest();
  if (call.kind != OpKind::kAllGatherV && call.kind != OpKind::kReduceScatterV) return call.count;
  const bool gathers = call.kind == OpKind::kAllGatherV;
  size_t largest = 0;
  for (int rank = 0; rank < frame_.state.size; ++rank)
    largest = std::max(largest, gathers ? OutCount(call, rank) : InCount(call, rank));
  return largest;
}

// All ranks have arrived for a call whose data is still to be moved.
Operation::Result Operation::Move() {
  if (frame_.prepared.protocol != Protocol::kAuto) return TakeTurn();
  const bool local_counts = frame_.traits().local_counts;
  if (local_counts) {
    if (const absl::Status read = counts_.Read(frame_, slot_); !read.ok()) return frame_.Fail(read);
  }
  const Reach reach = ReachOfAll();
  taken_ = frame_.prepared.ProtocolFor(reach.direct, reach.readable);
  if (taken_ == Protocol::kAuto) {
    CallFacts facts = frame_.prepared.facts;
    if (local_counts) facts.bytes = counts_.largest() * frame_.shape().element_bytes;
    const Selection selection = SelectProtocol(facts, frame_.state.tuning, reach);
    if (selection.refused != Obstacle::kNone) {
      return Refuse(ObstacleText(selection.refused, facts, frame_.state.tuning));
    }
    taken_ = selection.protocol;
  }
  switch (taken_) {
    case Protocol::kSlot: {
      const absl::Status copied = CountExchange::CopyData(frame_, slot_);
      return copied.ok() ? frame_.Finish() : frame_.Fail(copied);
    }
    case Protocol::kDirect:
    case Protocol::kSingleCopy:
      phase_ = Phase::kDirect;
      return StartDirect(frame_, shared_, slot_);
    case Protocol::kStaged:
      break;
    default:
      WEFT_CHECK(false);  // the others are known before the arrivals
  }
  if (!staged_.begun()) {
    const absl::Status begun = staged_.Begin(frame_, LargestBlock());
    if (!begun.ok()) return frame_.Fail(begun);
  }
  phase_ = Phase::kStaged;
  frame_.ShowProgress(staged_.Progress(frame_, CallProgress::kNobody));
  return PollStaged();
}

// Ends the operation on all ranks alike: what it asks for cannot be done.
Operation::Result Operation::Refuse(std::string_view why) {
  frame_.error = MakeError(
      WEFT_UNSUPPORTED, StrCat("algorithm \"", ProtocolName(frame_.call().algorithm), "\": ", why));
  frame_.Finish();
  return Result::kRefused;
}

}  // namespace weft
