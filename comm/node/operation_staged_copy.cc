// Staged operations that only copy. Per round a rank stages a piece of its block for everybody, or, where
// every rank gets another, a piece of each rank's block side by side; all read what is for them and
// publish `reduced` when they have. Rounds, parts and what protects them: operation_staged.cc.
#include <algorithm>

#include "comm/node/operation.h"

namespace weft {

void Operation::StageCopies(NodeState& state, size_t round) {
  char* const stage = StageOf(state, state.rank, round);
  if (!traits().in_blocks) {
    const bool read_by_others = !traits().root_out || call_.root != state.rank;
    if (read_by_others) {
      StageIn(state, 0, Clip(round, InCount(call_, 0)), stage + PartOffset(round));
    }
    return;
  }
  for (int peer = 0; peer < state.size; ++peer) {
    if (peer == state.rank) continue;
    StageIn(state, peer, Clip(round, InCount(call_, peer)), stage + PieceOffset(round, peer));
  }
}

// This rank's own block, from in to out.
void Operation::CopyOwn(const NodeState& state) const {
  const int block = OutBlock(state.rank);
  const Piece piece = Clip(rounds_.current, OutCount(call_, block));
  for (size_t done = 0; done < piece.count;) {
    const Run run = InRun(call_, InBlock(state.rank), piece.begin + done, piece.count - done);
    CopyOut(call_, block, piece.begin + done, run.count, run.memory);
    done += run.count;
  }
}

Operation::Result Operation::GatherCopies(NodeState& state) {
  const size_t offset =
      traits().in_blocks ? PieceOffset(rounds_.current, state.rank) : PartOffset(rounds_.current);
  for (; shape_.has_output && next_peer_ < state.size; ++next_peer_) {
    if (!HasInput(call_, next_peer_)) continue;
    const bool writes = WritesFrom(state, next_peer_);
    if (next_peer_ == state.rank) {
      if (writes) CopyOwn(state);
      continue;
    }
    const int block = OutBlock(next_peer_);
    const Piece piece = Clip(rounds_.current, OutCount(call_, block));
    // Who will write where the peer has written now must wait for it in any case.
    const bool reads = writes && piece.count > 0;
    if (!reads && !rounds_.turns) continue;
    if (!HasStaged(state, next_peer_)) {
      return Block(next_peer_, state.control(next_peer_).staged,
                   static_cast<uint32_t>(state.staged + rounds_.current + 1));
    }
    const char* const stage = StageOf(state, next_peer_, rounds_.current);
    if (stage == nullptr) return Result::kFailed;
    if (reads) CopyToOutput(state, block, piece.begin, piece.count, stage + offset);
  }
  next_peer_ = 0;
  state.Publish(state.self().reduced, static_cast<uint32_t>(state.reduced + rounds_.current + 1));
  return Result::kDone;
}

}  // namespace weft
