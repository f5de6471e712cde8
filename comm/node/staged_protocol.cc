// A round is staged before the one before it is reduced, so that waiting for peers hides behind copying. The order of the
// three steps is what keeps a part from being overwritten while a peer reads it: the checks here are the proof of
// docs/design/003-node.md in code, not caution, and none can be left out.
#include "comm/node/staged_protocol.h"

#include <algorithm>

#include "base/cache_line.h"
#include "base/check.h"
#include "base/status.h"

namespace weft {
namespace {

constexpr size_t kTileBytes = 8 << 10;  // stays in the nearest cache between two passes
// A chunk of what one rank copies to others: it works on the next one while they read.
constexpr size_t kStagedChunkBytes = 32 << 10;

}  // namespace

absl::Status StagedProtocol::Begin(OperationFrame& frame, size_t largest) {
  NodeState& state = frame.state;
  WEFT_RETURN_IF_ERROR(state.staging.Make(state));
  // A part holds one chunk, or, where every rank gets another, a piece for each.
  const OpTraits& traits = frame.traits();
  const size_t element = frame.shape().element_bytes;
  const auto ranks = static_cast<size_t>(state.size);
  const bool split = (traits.reduces && !traits.prefix) || traits.in_blocks;
  const bool rooted = traits.root_in || traits.root_out;
  const bool sliced = frame.Sliced();
  const size_t most = split ? state.tuning.stage_piece_bytes
                            : (rooted ? kStagedChunkBytes : state.tuning.stage_piece_bytes * ranks);
  // A share of whole pieces is a piece: the least of them have room for many times the elements of whole lines.
  const size_t together = frame.ElementsOfWholeLines();
  piece_elements_ = most / element / together * together;
  const size_t per_round = sliced ? piece_elements_ * ranks : piece_elements_;
  const size_t needed = std::min(per_round, largest);
  const size_t stride = (sliced ? frame.ShareOf(needed, ranks) : needed) * element;
  piece_bytes_ = (stride + kCacheLineBytes - 1) / kCacheLineBytes * kCacheLineBytes;
  // Copies larger than the caches push the lines out before they come back.
  const bool cached = traits.reduces || largest * element <= state.tuning.stage_ring_bytes;
  const bool ping_pong = state.size == kPingPongRanks && !rooted && !traits.prefix && cached;
  pieces_ = split && !ping_pong ? ranks : 1;
  parts_ = StagingParts(piece_bytes_ * (pieces_ + (sliced ? 1 : 0)), ping_pong);
  count_ = (largest + per_round - 1) / per_round;
  staged_ = 0;
  current_ = 0;
  reduced_ = false;
  begun_ = true;
  return absl::OkStatus();
}

void StagedProtocol::StageEarly(OperationFrame& frame, size_t largest, Arrival& line) {
  NodeState& state = frame.state;
  const bool first = frame.sequence == state.completed + 1;
  if (!first || !frame.shape().has_input || !Begin(frame, largest).ok() || count_ == 0) return;
  if (AwaitPart(frame) != OperationResult::kDone) {
    frame.next_peer = 0;
    return;
  }
  parts_.Take(state, frame.sequence, 0);
  FillPart(frame, 0);
  state.self().staged.store(static_cast<uint32_t>(state.staged + 1), std::memory_order_release);
  staged_ = 1;
  line.told.rounds_staged = 1;
}

Piece StagedProtocol::Clip(size_t round, size_t count) const {
  const size_t begin = std::min(round * piece_elements_, count);
  return {begin, std::min(piece_elements_, count - begin)};
}

Piece StagedProtocol::PieceOf(const OperationFrame& frame, size_t round, int owner) const {
  if (!frame.Sliced()) return Clip(round, InCount(frame.call(), frame.InBlock(owner)));
  const auto ranks = static_cast<size_t>(frame.state.size);
  const size_t begin = round * piece_elements_ * ranks;
  const size_t length = std::min(piece_elements_ * ranks, frame.call().count - begin);
  const size_t share = frame.ShareOf(length, ranks);
  const size_t first = std::min(static_cast<size_t>(owner) * share, length);
  return {begin + first, std::min(share, length - first)};
}

// kBlocked until peers have read what the next part held before.
OperationResult StagedProtocol::AwaitPart(OperationFrame& frame) const {
  NodeState& state = frame.state;
  const auto [here, there] = parts_.LastUsers(state, staged_);
  // What this rank itself read there it has read: all of an older operation, and of this one the round before the last.
  WEFT_CHECK(here.sequence == frame.sequence ? here.round < current_
                                             : here.sequence <= state.completed);
  // Who has been read from has staging.
  if (here.sequence != 0 && !state.staging.FindAll(state, &frame.error)) {
    return OperationResult::kFailed;
  }
  return there.sequence == 0 ? OperationResult::kDone : AwaitReaders(frame, there);
}

// kBlocked until all peers are through with a round that this rank staged.
OperationResult StagedProtocol::AwaitReaders(OperationFrame& frame,
                                             const StagingParts::User& last) const {
  if (last.sequence != frame.sequence) return frame.AwaitCredit(last.sequence);
  const NodeState& state = frame.state;
  return frame.traits().reduces
             ? frame.AwaitAll(&RankControl::staged,
                              static_cast<uint32_t>(state.staged + last.round + 3))
             : frame.AwaitAll(&RankControl::reduced,
                              static_cast<uint32_t>(state.reduced + last.round + 1));
}

void StagedProtocol::StageIn(const OperationFrame& frame, int block, const Piece& piece,
                             char* to) const {
  const size_t element = frame.shape().element_bytes;
  for (size_t done = 0; done < piece.count;) {
    const Span span = InSpan(frame.call(), block, piece.begin + done, piece.count - done);
    parts_.CopyIn(frame.state, to + done * element, span.memory, span.count * element);
    done += span.count;
  }
}

void StagedProtocol::FillPart(OperationFrame& frame, size_t round) const {
  const int own = frame.state.rank;
  char* const part = parts_.Of(frame.state, own, round, &frame.error);
  if (!frame.traits().reduces) return StageCopies(frame, round, part);
  if (frame.traits().prefix) return StageIn(frame, 0, Clip(round, frame.call().count), part);
  for (int owner = 0; owner < frame.state.size; ++owner) {
    if (owner == own) continue;
    StageIn(frame, frame.InBlock(owner), PieceOf(frame, round, owner), part + PieceOffset(owner));
  }
}

OperationResult StagedProtocol::StageRound(OperationFrame& frame) {
  NodeState& state = frame.state;
  const bool gives = frame.shape().has_input;
  if (gives) {
    const OperationResult awaited = AwaitPart(frame);
    if (awaited != OperationResult::kDone) return awaited;
  }
  parts_.Take(state, frame.sequence, staged_);
  if (gives) {
    FillPart(frame, staged_);
    state.Publish(state.self().staged, static_cast<uint32_t>(state.staged + staged_ + 1));
  }
  ++staged_;
  return OperationResult::kDone;
}

// Reduces this rank's piece of the round, from its own input and the peers' parts, a tile at a time: into
// the output, and from there, while it is in the nearest cache, to where the peers read it.
bool StagedProtocol::ReducePiece(OperationFrame& frame, const Piece& piece, bool for_others) const {
  NodeState& state = frame.state;
  const Collective& call = frame.call();
  const size_t element = frame.shape().element_bytes;
  const bool has_output = frame.shape().has_output;
  if (!has_output && !for_others) return true;
  const int combined = frame.shape().combined_ranks;
  const char* staged[kNodeRanksMax];
  for (int peer = 0; peer < combined; ++peer) {
    if (peer == state.rank) continue;
    const char* const part = parts_.Of(state, peer, current_, &frame.error);
    if (part == nullptr) return false;
    staged[peer] = part + PieceOffset(state.rank);
  }
  alignas(kCacheLineBytes) char scratch[kTileBytes];
  char* const result = parts_.Of(state, state.rank, current_, &frame.error) + ResultOffset();
  for (size_t done = 0; done < piece.count;) {
    const size_t limit = std::min(piece.count - done, kTileBytes / element);
    const Span own = InSpan(call, frame.InBlock(state.rank), piece.begin + done, limit);
    const void* sources[kNodeRanksMax];
    for (int peer = 0; peer < combined; ++peer)
      sources[peer] = peer == state.rank ? own.memory : staged[peer] + done * element;
    // in and out are divided into parts at the same elements, so own.count fits out as well.
    void* const tile =
        has_output ? OutSpan(call, 0, piece.begin + done, own.count).memory : scratch;
    frame.RunKernel(sources, &tile, 1, own.count);
    if (for_others) parts_.CopyIn(state, result + done * element, tile, own.count * element);
    done += own.count;
  }
  return true;
}

// True if the rank has staged the current round.
bool StagedProtocol::HasStaged(const OperationFrame& frame, int peer) const {
  if (frame.ArrivalOf(peer).told.rounds_staged > current_) return true;
  const auto want = static_cast<uint32_t>(frame.state.staged + current_ + 1);
  const uint32_t staged = frame.state.control(peer).staged.load(std::memory_order_acquire);
  return static_cast<int32_t>(staged - want) >= 0;
}

// `peer` has not staged the current round.
OperationResult StagedProtocol::AwaitStaged(OperationFrame& frame, int peer) const {
  return frame.Block(peer, frame.state.control(peer).staged,
                     static_cast<uint32_t>(frame.state.staged + current_ + 1));
}

OperationResult StagedProtocol::ReduceRound(OperationFrame& frame,
                                            const SharedResult& shared) const {
  NodeState& state = frame.state;
  for (int& peer = frame.next_peer; peer < state.size; ++peer) {
    if (peer != state.rank && !HasStaged(frame, peer)) return AwaitStaged(frame, peer);
  }
  frame.next_peer = 0;
  const bool for_others = frame.Sliced() && !shared.IsSharedByAll(state);
  if (!ReducePiece(frame, PieceOf(frame, current_, state.rank), for_others)) {
    return OperationResult::kFailed;
  }
  state.Publish(state.self().reduced, static_cast<uint32_t>(state.reduced + current_ + 1));
  return OperationResult::kDone;
}

OperationResult StagedProtocol::GatherResults(OperationFrame& frame,
                                              const SharedResult& shared) const {
  if (!frame.Sliced() || !frame.shape().has_output) return OperationResult::kDone;
  NodeState& state = frame.state;
  const auto want = static_cast<uint32_t>(state.reduced + current_ + 1);
  for (int& peer = frame.next_peer; peer < state.size; ++peer) {
    if (peer == state.rank) continue;
    const std::atomic<uint32_t>& word = state.control(peer).reduced;
    if (static_cast<int32_t>(word.load(std::memory_order_acquire) - want) < 0) {
      return frame.Block(peer, word, want);
    }
    if (!shared.WritesFrom(state, peer)) continue;
    const char* const part = parts_.Of(state, peer, current_, &frame.error);
    if (part == nullptr) return OperationResult::kFailed;
    const Piece piece = PieceOf(frame, current_, peer);
    frame.CopyToOutput(0, piece.begin, piece.count, part + ResultOffset());
  }
  frame.next_peer = 0;
  return OperationResult::kDone;
}

CallProgress StagedProtocol::Progress(const OperationFrame& frame, int peer) const {
  if (StagesNext()) {
    return {CallPhase::kStaging, peer, staged_ + 1, count_};
  }
  const bool reducing = frame.traits().reduces && !reduced_;
  return {reducing ? CallPhase::kReducing : CallPhase::kGathering, peer, current_ + 1, count_};
}

// Shown here and not at each poll, or a rank that is polled often would seem to work while it waits.
void StagedProtocol::NextRound(const OperationFrame& frame) {
  ++current_;
  reduced_ = false;
  if (current_ < count_) frame.ShowProgress(Progress(frame, CallProgress::kNobody));
}

OperationResult StagedProtocol::Poll(OperationFrame& frame, const SharedResult& shared) {
  constexpr OperationResult kDone = OperationResult::kDone;
  NodeState& state = frame.state;
  const bool reduces = frame.traits().reduces;
  for (; current_ < count_; NextRound(frame)) {
    if (state.aborted()) return frame.Fail(MakeError(WEFT_ABORTED, "aborted"));
    // While a round is being gathered, next_peer is the gather's.
    while (StagesNext()) {
      if (const OperationResult staged = StageRound(frame); staged != kDone) return staged;
    }
    if (reduces && !reduced_) {
      if (const OperationResult done = ReduceRound(frame, shared); done != kDone) return done;
    }
    reduced_ = true;
    const OperationResult gathered =
        reduces ? GatherResults(frame, shared) : GatherCopies(frame, shared);
    if (gathered != kDone) return gathered;
  }
  state.staged += count_;
  state.reduced += count_;
  if (!frame.shape().has_input) {  // I3
    state.Publish(state.self().staged, static_cast<uint32_t>(state.staged));
  }
  return kDone;
}

}  // namespace weft
