// Operations on private memory: through the ranks' staging areas, in rounds, two rounds under way. The
// copying ones among them: operation_staged_copy.cc.
//
// Each round has a part of the ranks' staging (stage_ring.h). Round t of a reduction:
//   stage   copy the pieces that other ranks own into the part of t; publish staged = base + t + 1
//   reduce  when all have staged t: reduce the own piece from the own input and the peers' parts
//           straight into the output and behind the pieces of t; publish reduced = base + t + 1
//   gather  when all have reduced t: copy the peers' results (all_reduce; reduce: the root only)
// with stage(t + 1) before reduce(t). all_gather and broadcast stage whole chunks, gather them from
// the parts, and publish `reduced` when they have been read.
//
// Nothing is overwritten too early: before a part is written, all peers must be through with the newest
// round that used any of it:
//   of an older operation   they have published it as done
//   of a copy (t' < t)      they have published reduced(t'), which follows their last read
//   of a reduction          they have published staged(t' + 2), which follows their gather(t'). A lap has room for
//                           four parts, so that t' + 2 < t, and nobody waits for itself.
// Two ranks that both give and get write their rounds where they read last instead, into each other's staging and
// their own in turn (turned_stage.h). What a rank itself has read there is free; for what the peer has read, the
// same rules hold. So a round always follows the peer's staging of it, also of a rank that needs nothing of it.
#include <algorithm>
#include <cstring>
#include <new>

#include "base/cache_line.h"
#include "base/check.h"
#include "base/status.h"
#include "comm/kernels/dtype.h"
#include "comm/node/heap.h"
#include "comm/node/operation.h"
#include "fmt/format.h"

namespace weft {
namespace {

constexpr size_t kTileBytes = 8 << 10;  // stays in the nearest cache between two passes
// A chunk of what one rank copies to others: it works on the next one while they read.
constexpr size_t kChunkBytes = 32 << 10;

// Behind the two rings.
size_t TurnedBegin(const NodeState& state) {
  return state.tuning.stage_ring_bytes + (state.slots_turn ? 0 : state.tuning.slot_ring_bytes);
}

// Room for two rounds, each with a piece for every rank or a piece and results.
size_t TurnedBytes(const NodeState& state) {
  const auto ranks = static_cast<size_t>(state.size);
  return state.size == kTurningRanks ? 2 * state.tuning.stage_piece_bytes * ranks : 0;
}

size_t StageBytes(const NodeState& state) {
  return TurnedBegin(state) + TurnedBytes(state);
}

}  // namespace

// Once per group.
absl::Status Operation::MakeStage(NodeState& state) {
  if (state.stage != nullptr) return absl::OkStatus();
  absl::StatusOr<void*> stage = ProcessHeap().Allocate(StageBytes(state));
  if (!stage.ok()) return Annotate(stage.status(), "staging of the group: ");
  try {
    state.stage_ring = StageRing(state.tuning.stage_ring_bytes);
    if (!state.slots_turn) state.slot_ring = StageRing(state.tuning.slot_ring_bytes);
    state.turned_stage = TurnedStage(TurnedBytes(state));
  } catch (const std::bad_alloc&) {
    (void)ProcessHeap().Free(*stage);
    return MakeError(WEFT_OUT_OF_MEMORY, "staging of the group: out of memory");
  }
  state.stage = static_cast<char*>(*stage);
  const char* const base = state.peers[static_cast<size_t>(state.rank)]->base();
  state.self().stage_offset.store(static_cast<uint64_t>(state.stage - base),
                                  std::memory_order_release);
  return absl::OkStatus();
}

// All peers' staging; false and error_ set if one announced something outside its heap.
bool Operation::FindStages(NodeState& state) {
  for (int peer = 0; peer < state.size; ++peer) {
    if (peer != state.rank && PeerStage(state, peer) == nullptr) return false;
  }
  return true;
}

absl::Status Operation::BeginStaged(NodeState& state) {
  WEFT_RETURN_IF_ERROR(MakeStage(state));
  // A part holds one chunk, or, where every rank gets another, a piece for each.
  const auto ranks = static_cast<size_t>(state.size);
  const bool split = traits().reduces || traits().in_blocks;
  const bool rooted = traits().root_in || traits().root_out;
  const size_t most = split ? state.tuning.stage_piece_bytes
                            : (rooted ? kChunkBytes : state.tuning.stage_piece_bytes * ranks);
  const size_t largest = LargestBlock(state);
  const size_t piece = most / shape_.element_bytes;
  const size_t per_round = Sliced() ? piece * ranks : piece;
  const size_t needed = std::min(per_round, largest);
  const size_t stride = (Sliced() ? ShareOf(needed, ranks) : needed) * shape_.element_bytes;
  const size_t piece_bytes = (stride + kCacheLineBytes - 1) / kCacheLineBytes * kCacheLineBytes;
  // Copies larger than the caches push the lines out before they come back.
  const bool cached =
      traits().reduces || largest * shape_.element_bytes <= state.tuning.stage_ring_bytes;
  const bool turns = state.size == kTurningRanks && !rooted && cached;
  const size_t pieces = split && !turns ? ranks : 1;
  rounds_ = Rounds{.piece_elements = piece,
                   .piece_bytes = piece_bytes,
                   .part_bytes = piece_bytes * (pieces + (Sliced() ? 1 : 0)),
                   .parts = {0, 0},
                   .turns = turns,
                   .turned = {false, false},
                   .count = (largest + per_round - 1) / per_round,
                   .staged = 0,
                   .current = 0,
                   .reduced = false,
                   .pieces = pieces,
                   .ranks = state.size};
  begun_ = true;
  return absl::OkStatus();
}

// What is sure to be staged, because this rank's own buffers are private, can have its first round staged
// before the ranks meet, so that they meet once less. Only when nothing older is under way, whose rounds
// come first, and only if the part is free. A failure to get staging is left to be found again later.
void Operation::StageEarly(NodeState& state, Arrival& line) {
  line.told.rounds_staged = 0;
  const bool first = sequence_ == state.completed + 1;
  if (!first || call_.algorithm == Algorithm::kDirect || MayBeDirect(line, state.rank) ||
      !shape_.has_input || (shared_owner_ != nullptr && !traits().reduces) ||
      !BeginStaged(state).ok() || rounds_.count == 0) {
    return;
  }
  if (AwaitPart(state) != Result::kDone) {
    next_peer_ = 0;
    return;
  }
  TakePart(state, 0);
  FillPart(state, 0);
  state.self().staged.store(static_cast<uint32_t>(state.staged + 1), std::memory_order_release);
  rounds_.staged = 1;
  line.told.rounds_staged = 1;
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

// Of `length` elements that `ranks` ranks share: what each gets, in whole lines.
size_t Operation::ShareOf(size_t length, size_t ranks) const {
  const size_t per_line = kCacheLineBytes / shape_.element_bytes;
  return ((length + ranks - 1) / ranks + per_line - 1) / per_line * per_line;
}

// Of a reduction, the elements that `owner` reduces: of the buffer if all get all of it, else of the
// owner's block.
Operation::Piece Operation::PieceOf(size_t round, int owner) const {
  if (!Sliced()) return Clip(round, InCount(call_, owner));
  const auto ranks = static_cast<size_t>(rounds_.ranks);
  const size_t begin = round * rounds_.piece_elements * ranks;
  const size_t length = std::min(rounds_.piece_elements * ranks, call_.count - begin);
  const size_t share = ShareOf(length, ranks);
  const size_t first = std::min(static_cast<size_t>(owner) * share, length);
  return {begin + first, std::min(share, length - first)};
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

// Where `rank` writes in this round; nullptr and error_ set as above.
char* Operation::StageOf(NodeState& state, int rank, size_t round) {
  const int area = rounds_.turned[round & 1] ? state.size - 1 - rank : rank;
  return area == state.rank ? state.stage : PeerStage(state, area);
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

// kBlocked until peers have read what the next part held before.
Operation::Result Operation::AwaitPart(NodeState& state) {
  if (rounds_.turns) return AwaitTurnedPart(state);
  const StageRing::User last =
      state.stage_ring.LastUser(rounds_.part_bytes, state.tuning.stage_lap_bytes);
  return last.sequence == 0 ? Result::kDone : AwaitReaders(state, last);
}

// kBlocked until all peers are through with a round that this rank staged.
Operation::Result Operation::AwaitReaders(NodeState& state, const StageRing::User& last) {
  if (last.sequence != sequence_) return AwaitCredit(state, last.sequence);
  return traits().reduces ? AwaitAll(state, &RankControl::staged,
                                     static_cast<uint32_t>(state.staged + last.round + 3))
                          : AwaitAll(state, &RankControl::reduced,
                                     static_cast<uint32_t>(state.reduced + last.round + 1));
}

// The same of ranks that write where they read last. What this rank itself read there it has read: all of an older
// operation, and of this one the round before the last.
Operation::Result Operation::AwaitTurnedPart(NodeState& state) {
  const auto [here, there] = state.turned_stage.LastUsers(rounds_.part_bytes, rounds_.staged);
  WEFT_CHECK(here.sequence == sequence_ ? here.round < rounds_.current
                                        : here.sequence <= state.completed);
  // Who has been read from has staging.
  if (here.sequence != 0 && PeerStage(state, 1 - state.rank) == nullptr) return Result::kFailed;
  return there.sequence == 0 ? Result::kDone : AwaitReaders(state, there);
}

// Also by a rank that stages nothing, which reads its peers' parts.
void Operation::TakePart(NodeState& state, size_t round) {
  if (rounds_.turns) {
    const TurnedStage::Part part = state.turned_stage.Take(rounds_.part_bytes, {sequence_, round});
    rounds_.parts[round & 1] = TurnedBegin(state) + part.offset;
    rounds_.turned[round & 1] = part.turned;
    return;
  }
  rounds_.parts[round & 1] =
      state.stage_ring.Take(rounds_.part_bytes, state.tuning.stage_lap_bytes, {sequence_, round});
}

// Where it was read last, this rank has the lines.
void Operation::CopyToStage(NodeState& state, char* to, const char* from, size_t bytes) const {
  if (rounds_.turns) {
    std::memcpy(to, from, bytes);
  } else {
    state.stores.Copy(to, from, bytes);
  }
}

void Operation::StageIn(NodeState& state, int block, const Piece& piece, char* to) const {
  for (size_t done = 0; done < piece.count;) {
    const Run run = InRun(call_, block, piece.begin + done, piece.count - done);
    CopyToStage(state, to + done * shape_.element_bytes, run.memory,
                run.count * shape_.element_bytes);
    done += run.count;
  }
}

void Operation::FillPart(NodeState& state, size_t round) {
  if (!traits().reduces) return StageCopies(state, round);
  char* const stage = StageOf(state, state.rank, round);
  for (int owner = 0; owner < state.size; ++owner) {
    if (owner == state.rank) continue;
    StageIn(state, InBlock(owner), PieceOf(round, owner), stage + PieceOffset(round, owner));
  }
}

Operation::Result Operation::StageRound(NodeState& state) {
  if (shape_.has_input) {
    if (const Result awaited = AwaitPart(state); awaited != Result::kDone) return awaited;
  }
  TakePart(state, rounds_.staged);
  if (!shape_.has_input) return Result::kDone;
  FillPart(state, rounds_.staged);
  state.Publish(state.self().staged, static_cast<uint32_t>(state.staged + rounds_.staged + 1));
  return Result::kDone;
}

// Reduces this rank's piece of the round, from its own input and the peers' parts, a tile at a time: into
// the output, and from there, while it is in the nearest cache, to where the peers read it.
bool Operation::ReducePiece(NodeState& state, const Piece& piece) {
  const char* staged[kNodeRanksMax];
  for (int peer = 0; peer < state.size; ++peer) {
    if (peer == state.rank) continue;
    const char* const stage = StageOf(state, peer, rounds_.current);
    if (stage == nullptr) return false;
    staged[peer] = stage + PieceOffset(rounds_.current, state.rank);
  }
  alignas(kCacheLineBytes) char scratch[kTileBytes];
  const bool has_output = shape_.has_output;
  char* const result = StageOf(state, state.rank, rounds_.current) + ResultOffset(rounds_.current);
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
    if (Sliced() && !SharedByAll(state)) {
      CopyToStage(state, result + done * shape_.element_bytes, static_cast<const char*>(tile),
                  own.count * shape_.element_bytes);
    }
    done += own.count;
  }
  return true;
}

// True if the rank has staged the current round.
bool Operation::HasStaged(const NodeState& state, int peer) const {
  if (size_ == Size::kLarge && ArrivalOf(state, peer).told.rounds_staged > rounds_.current)
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
    if (!WritesFrom(state, next_peer_)) continue;
    const char* const stage = StageOf(state, next_peer_, rounds_.current);
    if (stage == nullptr) return Result::kFailed;
    const Piece piece = PieceOf(rounds_.current, next_peer_);
    CopyToOutput(state, 0, piece.begin, piece.count, stage + ResultOffset(rounds_.current));
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
  return sharers_ != 0 ? EndShared(state) : Finish(state);
}

}  // namespace weft
