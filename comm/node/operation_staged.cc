// Operations on private memory: through the ranks' staging areas, in rounds, two rounds under way. The
// copying ones among them: operation_staged_copy.cc.
//
// A rank's staging area is two halves and two result pieces, used alternately. Round t of a reduction:
//   stage   copy the pieces that other ranks own into the half of t; publish staged = base + t + 1
//   reduce  when all have staged t: reduce the own piece from the own input and the peers' halves
//           straight into the output and the result piece of t; publish reduced = base + t + 1
//   gather  when all have reduced t: copy the peers' results (all_reduce; reduce: the root only)
// with stage(t + 1) before reduce(t). all_gather and broadcast stage whole chunks, gather them from
// the halves, and publish `reduced` when they have been read.
//
// Nothing is overwritten too early:
//   half of t        is next written by stage(t + 2), which waits until all peers have published
//                    reduced >= the value they publish after their last read of it (stage_free_at)
//   result of t      is next written by reduce(t + 2), which waits for all staged(t + 2); a rank
//                    publishes that after its gather(t), the last read
// Both hold across operations, because the counters run on and an operation's stage(0) comes after
// everything of the one before.
#include <algorithm>
#include <cstring>

#include "base/status.h"
#include "comm/kernels/dtype.h"
#include "comm/node/heap.h"
#include "comm/node/operation.h"
#include "fmt/format.h"

namespace weft {
namespace {

constexpr size_t kLineBytes = 64;
// A half whose last use is more steps back than this was read long ago; comparing modulo 2^32 would
// fail far beyond it.
constexpr uint64_t kRecent = uint64_t{1} << 30;

size_t StageBytes(int ranks) {
  return 2 * kStageHalfBytes + 2 * StagePieceBytes(ranks);
}

}  // namespace

absl::Status Operation::BeginStaged(NodeState& state) {
  if (state.stage == nullptr) {
    absl::StatusOr<void*> stage = ProcessHeap().Allocate(StageBytes(state.size));
    if (!stage.ok()) return Annotate(stage.status(), "staging of the group: ");
    state.stage = static_cast<char*>(*stage);
    const char* const base = state.peers[static_cast<size_t>(state.rank)]->base();
    state.self().stage_offset.store(static_cast<uint64_t>(state.stage - base),
                                    std::memory_order_release);
  }
  phase_ = Phase::kStaged;
  ranks_ = state.size;
  // A half holds one piece, or one for every rank where each gets another.
  const bool split = traits().reduces || traits().in_blocks;
  piece_elements_ = (split ? StagePieceBytes(state.size) : kStageHalfBytes) / ElementBytes(call_);
  const size_t per_round =
      Sliced() ? piece_elements_ * static_cast<size_t>(state.size) : piece_elements_;
  rounds_ = (LargestBlock(state) + per_round - 1) / per_round;
  return absl::OkStatus();
}

// The largest block of the buffers, alike on all ranks.
size_t Operation::LargestBlock(const NodeState& state) const {
  if (size_ == Size::kRows) return largest_;
  size_t largest = 0;
  switch (call_.kind) {
    case OpKind::kAllGatherV:
      for (int rank = 0; rank < state.size; ++rank)
        largest = std::max(largest, OutCount(call_, rank));
      return largest;
    case OpKind::kReduceScatterV:
      for (int rank = 0; rank < state.size; ++rank)
        largest = std::max(largest, InCount(call_, rank));
      return largest;
    default:
      return call_.count;
  }
}

// What a round has of a block.
Operation::Piece Operation::Clip(size_t round, size_t block_count) const {
  const size_t begin = std::min(round * piece_elements_, block_count);
  return {begin, std::min(piece_elements_, block_count - begin)};
}

// Of a reduction, the elements that `owner` reduces: of the buffer if all get all of it, else of the
// owner's block.
Operation::Piece Operation::PieceOf(size_t round, int owner) const {
  if (!Sliced()) return Clip(round, InCount(call_, owner));
  const auto ranks = static_cast<size_t>(ranks_);
  const size_t begin = round * piece_elements_ * ranks;
  const size_t length = std::min(piece_elements_ * ranks, call_.count - begin);
  const size_t per_line = kLineBytes / ElementBytes(call_);
  const size_t share = ((length + ranks - 1) / ranks + per_line - 1) / per_line * per_line;
  const size_t first = std::min(static_cast<size_t>(owner) * share, length);
  return {begin + first, std::min(share, length - first)};
}

size_t Operation::HalfOffset(const NodeState& state, size_t round) const {
  return ((state.staged + round) & 1) * kStageHalfBytes;
}

size_t Operation::ResultOffset(const NodeState& state, size_t round) const {
  return 2 * kStageHalfBytes + ((state.staged + round) & 1) * StagePieceBytes(state.size);
}

// nullptr and error_ set if the peer announced something outside its heap.
char* Operation::PeerStage(NodeState& state, int peer) {
  char*& stage = state.peer_stage[static_cast<size_t>(peer)];
  if (stage == nullptr) {
    const uint64_t offset = state.control(peer).stage_offset.load(std::memory_order_acquire);
    stage = state.peers[static_cast<size_t>(peer)]->At(offset, StageBytes(state.size));
    if (stage == nullptr) {
      error_ =
          MakeError(WEFT_CORRUPT, {.rank = peer},
                    fmt::format("rank {} announced staging at {}, outside its heap", peer, offset));
    }
  }
  return stage;
}

Operation::Result Operation::AwaitAll(NodeState& state, std::atomic<uint32_t> RankControl::*word,
                                      uint32_t want) {
  for (; next_peer_ < state.size; ++next_peer_) {
    if (next_peer_ == state.rank) continue;
    const std::atomic<uint32_t>& value = state.control(next_peer_).*word;
    if (static_cast<int32_t>(value.load(std::memory_order_acquire) - want) < 0) {
      return Block(next_peer_, value, want);
    }
  }
  next_peer_ = 0;
  return Result::kDone;
}

Operation::Result Operation::StageRound(NodeState& state) {
  const size_t round = stage_round_;
  if (!HasInput(call_, state.rank)) return Result::kDone;
  uint64_t& free_at = state.stage_free_at[(state.staged + round) & 1];
  if (state.reduced - free_at < kRecent || free_at > state.reduced) {
    const Result free = AwaitAll(state, &RankControl::reduced, static_cast<uint32_t>(free_at));
    if (free == Result::kBlocked) return free;
  }
  char* const half = state.stage + HalfOffset(state, round);
  if (!traits().reduces) {
    StageCopies(state, round, half);
  } else {
    for (int owner = 0; owner < state.size; ++owner) {
      const Piece piece = PieceOf(round, owner);
      if (owner == state.rank || piece.count == 0) continue;
      CopyIn(call_, InBlock(owner), piece.begin, piece.count,
             half + static_cast<size_t>(owner) * StagePieceBytes(state.size));
    }
  }
  free_at = state.reduced + round + 1;
  state.Publish(state.self().staged, static_cast<uint32_t>(state.staged + round + 1));
  return Result::kDone;
}

// Reduces this rank's piece of the round: from its own input and the peers' halves.
bool Operation::ReducePiece(NodeState& state, const Piece& piece) {
  const size_t element = ElementBytes(call_);
  const char* staged[kNodeRanksMax];
  for (int peer = 0; peer < state.size; ++peer) {
    if (peer == state.rank) continue;
    const char* const stage = PeerStage(state, peer);
    if (stage == nullptr) return false;
    staged[peer] = stage + HalfOffset(state, round_) +
                   static_cast<size_t>(state.rank) * StagePieceBytes(state.size);
  }
  for (size_t done = 0; done < piece.count;) {
    const Run own = InRun(call_, InBlock(state.rank), piece.begin + done, piece.count - done);
    const void* sources[kNodeRanksMax];
    for (int peer = 0; peer < state.size; ++peer)
      sources[peer] = peer == state.rank ? own.memory : staged[peer] + done * element;
    void* destinations[2];
    int destination_count = 0;
    if (HasOutput(call_, state.rank)) {  // where in is cut, out is
      destinations[destination_count++] = OutRun(call_, 0, piece.begin + done, own.count).memory;
    }
    if (Sliced()) {
      destinations[destination_count++] =
          state.stage + ResultOffset(state, round_) + done * element;
    }
    RunKernel(state, sources, destinations, destination_count, own.count);
    done += own.count;
  }
  return true;
}

Operation::Result Operation::ReduceRound(NodeState& state) {
  const auto staged = static_cast<uint32_t>(state.staged + round_ + 1);
  if (AwaitAll(state, &RankControl::staged, staged) == Result::kBlocked) return Result::kBlocked;
  if (!ReducePiece(state, PieceOf(round_, state.rank))) return Result::kFailed;
  state.Publish(state.self().reduced, static_cast<uint32_t>(state.reduced + round_ + 1));
  return Result::kDone;
}

Operation::Result Operation::GatherResults(NodeState& state) {
  if (!Sliced() || !HasOutput(call_, state.rank)) return Result::kDone;
  const auto want = static_cast<uint32_t>(state.reduced + round_ + 1);
  for (; next_peer_ < state.size; ++next_peer_) {
    if (next_peer_ == state.rank) continue;
    const std::atomic<uint32_t>& word = state.control(next_peer_).reduced;
    if (static_cast<int32_t>(word.load(std::memory_order_acquire) - want) < 0) {
      return Block(next_peer_, word, want);
    }
    const char* const stage = PeerStage(state, next_peer_);
    if (stage == nullptr) return Result::kFailed;
    const Piece piece = PieceOf(round_, next_peer_);
    CopyOut(call_, 0, piece.begin, piece.count, stage + ResultOffset(state, round_));
  }
  next_peer_ = 0;
  return Result::kDone;
}

Operation::Result Operation::Staged(NodeState& state) {
  for (; round_ < rounds_; ++round_, reduced_ = false) {
    if (state.aborted()) return Fail(MakeError(WEFT_ABORTED, "aborted"));
    // While a round is being gathered, next_peer_ is the gather's.
    for (; !reduced_ && stage_round_ < rounds_ && stage_round_ <= round_ + 1; ++stage_round_) {
      if (const Result r = StageRound(state); r != Result::kDone) return r;
    }
    if (traits().reduces && !reduced_) {
      if (const Result r = ReduceRound(state); r != Result::kDone) return r;
    }
    reduced_ = true;
    const Result gathered = traits().reduces ? GatherResults(state) : GatherCopies(state);
    if (gathered != Result::kDone) return gathered;
  }
  state.staged += rounds_;
  state.reduced += rounds_;
  if (!HasInput(call_, state.rank)) {  // I3
    state.Publish(state.self().staged, static_cast<uint32_t>(state.staged));
  }
  return Finish(state);
}

}  // namespace weft
