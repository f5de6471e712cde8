// Staged operations that only copy. Per round a rank stages a piece of its block for everybody, or, where
// every rank gets another, a piece of each rank's block side by side; all read what is for them and
// publish `reduced` when they have. Rounds, halves and what protects them: operation_staged.cc.
#include <algorithm>

#include "comm/node/operation.h"

namespace weft {

void Operation::StageCopies(NodeState& state, size_t round, char* half) const {
  if (!traits().in_blocks) {
    const bool read_by_others = !traits().root_out || call_.root != state.rank;
    const Piece piece = Clip(round, InCount(call_, 0));
    if (read_by_others) CopyIn(call_, 0, piece.begin, piece.count, half);
    return;
  }
  for (int peer = 0; peer < state.size; ++peer) {
    if (peer == state.rank) continue;
    const Piece piece = Clip(round, InCount(call_, peer));
    CopyIn(call_, peer, piece.begin, piece.count,
           half + static_cast<size_t>(peer) * StagePieceBytes(state.size));
  }
}

// This rank's own block, from in to out.
void Operation::CopyOwn(NodeState& state) const {
  const int block = OutBlock(state.rank);
  const Piece piece = Clip(round_, OutCount(call_, block));
  for (size_t done = 0; done < piece.count;) {
    const Run run = InRun(call_, InBlock(state.rank), piece.begin + done, piece.count - done);
    CopyOut(call_, block, piece.begin + done, run.count, run.memory);
    done += run.count;
  }
}

Operation::Result Operation::GatherCopies(NodeState& state) {
  const auto staged = static_cast<uint32_t>(state.staged + round_ + 1);
  const size_t within =
      traits().in_blocks ? static_cast<size_t>(state.rank) * StagePieceBytes(state.size) : 0;
  for (; HasOutput(call_, state.rank) && next_peer_ < state.size; ++next_peer_) {
    if (!HasInput(call_, next_peer_)) continue;
    if (next_peer_ == state.rank) {
      CopyOwn(state);
      continue;
    }
    const int block = OutBlock(next_peer_);
    const Piece piece = Clip(round_, OutCount(call_, block));
    if (piece.count == 0) continue;
    const std::atomic<uint32_t>& word = state.control(next_peer_).staged;
    if (static_cast<int32_t>(word.load(std::memory_order_acquire) - staged) < 0) {
      return Block(next_peer_, word, staged);
    }
    const char* const stage = PeerStage(state, next_peer_);
    if (stage == nullptr) return Result::kFailed;
    CopyOut(call_, block, piece.begin, piece.count, stage + HalfOffset(state, round_) + within);
  }
  next_peer_ = 0;
  state.Publish(state.self().reduced, static_cast<uint32_t>(state.reduced + round_ + 1));
  return Result::kDone;
}

}  // namespace weft
