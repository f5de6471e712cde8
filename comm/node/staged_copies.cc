// Staged operations that only copy. Per round a rank stages a piece of its block for everybody, or, where
// every rank gets another, a piece of each rank's block side by side; all read what is for them and
// publish `reduced` when they have.
#include "comm/node/staged_protocol.h"

namespace weft {

void StagedProtocol::StageCopies(OperationFrame& frame, size_t round, char* part) const {
  const Collective& call = frame.call();
  const int own = frame.state.rank;
  if (!frame.traits().in_blocks) {
    const bool read_by_others = !frame.traits().root_out || call.root != own;
    if (read_by_others) StageIn(frame, 0, Clip(round, InCount(call, 0)), part);
    return;
  }
  for (int peer = 0; peer < frame.state.size; ++peer) {
    if (peer == own) continue;
    StageIn(frame, peer, Clip(round, InCount(call, peer)), part + PieceOffset(peer));
  }
}

// This rank's own block, from in to out.
void StagedProtocol::CopyOwn(const OperationFrame& frame) const {
  const Collective& call = frame.call();
  const int own = frame.state.rank;
  const int block = frame.OutBlock(own);
  const Piece piece = Clip(current_, OutCount(call, block));
  for (size_t done = 0; done < piece.count;) {
    const Span span = InSpan(call, frame.InBlock(own), piece.begin + done, piece.count - done);
    CopyOut(call, block, piece.begin + done, span.count, span.memory);
    done += span.count;
  }
}

OperationResult StagedProtocol::GatherCopies(OperationFrame& frame,
                                             const SharedResult& shared) const {
  NodeState& state = frame.state;
  const Collective& call = frame.call();
  const size_t offset = frame.traits().in_blocks ? PieceOffset(state.rank) : 0;
  for (int& peer = frame.next_peer; frame.shape().has_output && peer < state.size; ++peer) {
    if (!HasInput(call, peer)) continue;
    const bool writes = shared.WritesFrom(state, peer);
    if (peer == state.rank) {
      if (writes) CopyOwn(frame);
      continue;
    }
    const int block = frame.OutBlock(peer);
    const Piece piece = Clip(current_, OutCount(call, block));
    // Who will write where the peer has written now must wait for it in any case.
    const bool reads = writes && piece.count > 0;
    if (!reads && !parts_.ping_pong()) continue;
    if (!HasStaged(frame, peer)) return AwaitStaged(frame, peer);
    const char* const part = parts_.Of(state, peer, current_, &frame.error);
    if (part == nullptr) return OperationResult::kFailed;
    if (reads) frame.CopyToOutput(block, piece.begin, piece.count, part + offset);
  }
  frame.next_peer = 0;
  state.Publish(state.self().reduced, static_cast<uint32_t>(state.reduced + current_ + 1));
  return OperationResult::kDone;
}

}  // namespace weft
