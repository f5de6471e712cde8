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
constexpr size_t kTileBytes = 8 << 10;  // stays in the nearest cache between two passes
// A half whose last use is more steps back than this was read long ago; comparing modulo 2^32 would
// fail far beyond it.
constexpr uint64_t kRecent = uint64_t{1} << 30;

size_t StageBytes(const NodeState& state) {
  return 2 * state.half_bytes() + 2 * state.piece_bytes();
}

}  // namespace

absl::Status Operation::BeginStaged(NodeState& state) {
  if (state.stage == nullptr) {
    absl::StatusOr<void*> stage = ProcessHeap().Allocate(StageBytes(state));
    if (!stage.ok()) return Annotate(stage.status(), "staging of the group: ");
    state.stage = static_cast<char*>(*stage);
    const char* const base = state.peers[static_cast<size_t>(state.rank)]->base();
    state.self().stage_offset.store(static_cast<uint64_t>(state.stage - base),
                                    std::memory_order_release);
  }
  // A half holds one piece, or one for every rank where each gets another.
  const bool split = traits().reduces || traits().in_blocks;
  const size_t piece = (split ? state.piece_bytes() : state.half_bytes()) / shape_.element_bytes;
  const size_t per_round = Sliced() ? piece * static_cast<size_t>(state.size) : piece;
  rounds_ = Rounds{.piece_elements = piece,
                   .count = (LargestBlock(state) + per_round - 1) / per_round,
                   .staged = 0,
                   .current = 0,
                   .reduced = false,
                   .ranks = state.size};
  begun_ = true;
  return absl::OkStatus();
}

// What is sure to be staged, because this rank's own buffers are private, can have its first round staged
// before the ranks meet, so that they meet once less. Only when nothing older is under way, whose rounds
// come first, and only if the half is free. A failure to get staging is left to be found again later.
void Operation::StageEarly(NodeState& state, Arrival& line) {
  line.place.rounds_staged = 0;
  const bool first = sequence_ == state.completed + 1;
  if (!first || call_.algorithm == Algorithm::kDirect || MayBeDirect(line, state.rank) ||
      !shape_.has_input || !BeginStaged(state).ok() || rounds_.count == 0) {
    return;
  }
  if (AwaitHalf(state, 0) == Result::kBlocked) {
    next_peer_ = 0;
    return;
  }
  FillHalf(state, 0);
  state.self().staged.store(static_cast<uint32_t>(state.staged + 1), std::memory_order_release);
  rounds_.staged = 1;
  line.place.rounds_staged = 1;
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
  const size_t begin = std::min(round * rounds_.piece_elements, block_count);
  return {begin, std::min(rounds_.piece_elements, block_count - begin)};
}

// Of a reduction, the elements that `owner` reduces: of the buffer if all get all of it, else of the
// owner's block.
Operation::Piece Operation::PieceOf(size_t round, int owner) const {
  if (!Sliced()) return Clip(round, InCount(call_, owner));
  const auto ranks = static_cast<size_t>(rounds_.ranks);
  const size_t begin = round * rounds_.piece_elements * ranks;
  const size_t length = std::min(rounds_.piece_elements * ranks, call_.count - begin);
  const size_t per_line = kLineBytes / shape_.element_bytes;
  const size_t share = ((length + ranks - 1) / ranks + per_line - 1) / per_line * per_line;
  const size_t first = std::min(static_cast<size_t>(owner) * share, length);
  return {begin + first, std::min(share, length - first)};
}

size_t Operation::HalfOffset(const NodeState& state, size_t round) const {
  return ((state.staged + round) & 1) * state.half_bytes();
}

size_t Operation::ResultOffset(const NodeState& state, size_t round) const {
  return 2 * state.half_bytes() + ((state.staged + round) & 1) * state.piece_bytes();
}

// nullptr and error_ set if the peer announced something outside its heap.
char* Operation::PeerStage(NodeState& state, int peer) {
  char*& stage = state.peer_stage[static_cast<size_t>(peer)];
  if (stage == nullptr) {
    const uint64_t offset = state.control(peer).stage_offset.load(std::memory_order_acquire);
    stage = state.peers[static_cast<size_t>(peer)]->At(offset, StageBytes(state));
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

// kBlocked until peers have read what the half of the round held before.
Operation::Result Operation::AwaitHalf(NodeState& state, size_t round) {
  const uint64_t free_at = state.stage_free_at[(state.staged + round) & 1];
  if (state.reduced - free_at >= kRecent && free_at <= state.reduced) return Result::kDone;
  return AwaitAll(state, &RankControl::reduced, static_cast<uint32_t>(free_at));
}

void Operation::StageIn(NodeState& state, int block, const Piece& piece, char* to) const {
  for (size_t done = 0; done < piece.count;) {
    const Run run = InRun(call_, block, piece.begin + done, piece.count - done);
    state.stores.Copy(to + done * shape_.element_bytes, run.memory,
                      run.count * shape_.element_bytes);
    done += run.count;
  }
}

void Operation::FillHalf(NodeState& state, size_t round) {
  char* const half = state.stage + HalfOffset(state, round);
  if (!traits().reduces) {
    StageCopies(state, round, half);
  } else {
    for (int owner = 0; owner < state.size; ++owner) {
      if (owner == state.rank) continue;
      StageIn(state, InBlock(owner), PieceOf(round, owner),
              half + static_cast<size_t>(owner) * state.piece_bytes());
    }
  }
  state.stage_free_at[(state.staged + round) & 1] = state.reduced + round + 1;
}

Operation::Result Operation::StageRound(NodeState& state) {
  if (!shape_.has_input) return Result::kDone;
  if (AwaitHalf(state, rounds_.staged) == Result::kBlocked) return Result::kBlocked;
  FillHalf(state, rounds_.staged);
  state.Publish(state.self().staged, static_cast<uint32_t>(state.staged + rounds_.staged + 1));
  return Result::kDone;
}

// Reduces this rank's piece of the round, from its own input and the peers' halves, a tile at a time: into
// the output, and from there, while it is in the nearest cache, to where the peers read it.
bool Operation::ReducePiece(NodeState& state, const Piece& piece) {
  const char* staged[kNodeRanksMax];
  for (int peer = 0; peer < state.size; ++peer) {
    if (peer == state.rank) continue;
    const char* const stage = PeerStage(state, peer);
    if (stage == nullptr) return false;
    staged[peer] = stage + HalfOffset(state, rounds_.current) +
                   static_cast<size_t>(state.rank) * state.piece_bytes();
  }
  alignas(kLineBytes) char scratch[kTileBytes];
  const bool has_output = shape_.has_output;
  char* const result = state.stage + ResultOffset(state, rounds_.current);
  for (size_t done = 0; done < piece.count;) {
    const size_t limit = std::min(piece.count - done, kTileBytes / shape_.element_bytes);
    const Run own = InRun(call_, InBlock(state.rank), piece.begin + done, limit);
    const void* sources[kNodeRanksMax];
    for (int peer = 0; peer < state.size; ++peer)
      sources[peer] = peer == state.rank ? own.memory : staged[peer] + done * shape_.element_bytes;
    // Where in is cut, out is.
    void* const tile =
        has_output ? OutRun(call_, 0, piece.begin + done, own.count).memory : scratch;
    RunKernel(state, sources, &tile, 1, own.count);
    if (Sliced()) {
      state.stores.Copy(result + done * shape_.element_bytes, tile,
                        own.count * shape_.element_bytes);
    }
    done += own.count;
  }
  return true;
}

// True if the rank has staged the current round.
bool Operation::HasStaged(const NodeState& state, int peer) const {
  if (size_ == Size::kLarge && ArrivalOf(state, peer).place.rounds_staged > rounds_.current)
    return true;
  const auto want = static_cast<uint32_t>(state.staged + rounds_.current + 1);
  const uint32_t staged = state.control(peer).staged.load(std::memory_order_acquire);
  return static_cast<int32_t>(staged - want) >= 0;
}

Operation::Result Operation::AwaitStaged(NodeState& state) {
  for (; next_peer_ < state.size; ++next_peer_) {
    if (next_peer_ == state.rank || HasStaged(state, next_peer_)) continue;
    return Block(next_peer_, state.control(next_peer_).staged,
                 static_cast<uint32_t>(state.staged + rounds_.current + 1));
  }
  next_peer_ = 0;
  return Result::kDone;
}

Operation::Result Operation::ReduceRound(NodeState& state) {
  if (AwaitStaged(state) == Result::kBlocked) return Result::kBlocked;
  if (!ReducePiece(state, PieceOf(rounds_.current, state.rank))) return Result::kFailed;
  state.Publish(state.self().reduced, static_cast<uint32_t>(state.reduced + rounds_.current + 1));
  return Result::kDone;
}

Operation::Result Operation::GatherResults(NodeState& state) {
  if (!Sliced() || !shape_.has_output) return Result::kDone;
  const auto want = static_cast<uint32_t>(state.reduced + rounds_.current + 1);
  for (; next_peer_ < state.size; ++next_peer_) {
    if (next_peer_ == state.rank) continue;
    const std::atomic<uint32_t>& word = state.control(next_peer_).reduced;
    if (static_cast<int32_t>(word.load(std::memory_order_acquire) - want) < 0) {
      return Block(next_peer_, word, want);
    }
    const char* const stage = PeerStage(state, next_peer_);
    if (stage == nullptr) return Result::kFailed;
    const Piece piece = PieceOf(rounds_.current, next_peer_);
    CopyOut(call_, 0, piece.begin, piece.count, stage + ResultOffset(state, rounds_.current));
  }
  next_peer_ = 0;
  return Result::kDone;
}

Operation::Result Operation::Staged(NodeState& state) {
  for (; rounds_.current < rounds_.count; ++rounds_.current, rounds_.reduced = false) {
    if (state.aborted()) return Fail(MakeError(WEFT_ABORTED, "aborted"));
    // While a round is being gathered, next_peer_ is the gather's.
    while (!rounds_.reduced && rounds_.staged < rounds_.count &&
           rounds_.staged <= rounds_.current + 1) {
      if (const Result r = StageRound(state); r != Result::kDone) return r;
      ++rounds_.staged;
    }
    if (traits().reduces && !rounds_.reduced) {
      if (const Result r = ReduceRound(state); r != Result::kDone) return r;
    }
    rounds_.reduced = true;
    const Result gathered = traits().reduces ? GatherResults(state) : GatherCopies(state);
    if (gathered != Result::kDone) return gathered;
  }
  state.staged += rounds_.count;
  state.reduced += rounds_.count;
  if (!shape_.has_input) {  // I3
    state.Publish(state.self().staged, static_cast<uint32_t>(state.staged));
  }
  return Finish(state);
}

}  // namespace weft
