// Operations on private memory: through the ranks' staging, in rounds, two rounds under way.
//
//   if (absl::Status begun = staged.Begin(frame, largest); !begun.ok()) ...
//   OperationResult result = staged.Poll(frame, shared);   // kDone: all rounds are
//
// Each round has a part of the ranks' staging (staging.h). Round t of a reduction:
//   stage   copy the pieces that other ranks own into the part of t; publish staged = base + t + 1
//   reduce  when all have staged t: reduce the own piece from the own input and the peers' parts
//           straight into the output and behind the pieces of t; publish reduced = base + t + 1
//   gather  when all have reduced t: copy the peers' results (all_reduce; reduce: the root only)
// with stage(t + 1) before reduce(t). all_gather and broadcast stage whole chunks, gather them from
// the parts, and publish `reduced` when they have been read. A scan stages whole chunks as well, and every rank
// reduces what it needs of them for itself: nothing is gathered.
//
// Nothing is overwritten too early: before a part is written, all peers must be through with the newest
// round that used any of it:
//   of an older operation   they have published it as done
//   of a copy (t' < t)      they have published reduced(t'), which follows their last read
//   of a reduction          they have published staged(t' + 2), which follows their gather(t'). A lap has room for
//                           four parts, so that t' + 2 < t, and nobody waits for itself.
// Two ranks that both give and get write their rounds where they read last instead (ping_pong_area.h). What a rank itself
// has read there is free; for what the peer has read, the same rules hold. So a round always follows the peer's staging
// of it, also of a rank that needs nothing of it.
//
// Thread-safety: none; as NodeState.
#pragma once

#include <cstddef>

#include "absl/status/status.h"
#include "comm/node/operation_frame.h"
#include "comm/node/shared_result.h"
#include "comm/node/staging.h"

namespace weft {

class StagedProtocol {
 public:
  // `largest`: elements of the largest block, the same on all ranks. Makes the group's staging, if there is none:
  // OUT_OF_MEMORY.
  absl::Status Begin(OperationFrame& frame, size_t largest);

  // Begin has been called, and was Ok.
  bool begun() const { return begun_; }

  // What is sure to be staged can have its first round staged before the arrival, which says so: then the ranks meet once
  // less. Only for an operation with nothing before it, whose rounds would come first. Nothing happens if the part is not
  // free, or if there is no memory, which is found again by Begin.
  void StageEarly(OperationFrame& frame, size_t largest, Arrival& line);

  // Goes on with the rounds.
  OperationResult Poll(OperationFrame& frame, const SharedResult& shared);

  // Where Poll stands, waiting for `peer`, which may be CallProgress::kNobody.
  CallProgress Progress(const OperationFrame& frame, int peer) const;

 private:
  // A round.
  void NextRound(const OperationFrame& frame);

  // Before the current round is reduced the next one is staged.
  bool StagesNext() const { return !reduced_ && staged_ < count_ && staged_ <= current_ + 1; }

  OperationResult AwaitPart(OperationFrame& frame) const;
  OperationResult AwaitReaders(OperationFrame& frame, const StagingParts::User& last) const;
  OperationResult StageRound(OperationFrame& frame);
  void FillPart(OperationFrame& frame, size_t round) const;
  void StageIn(const OperationFrame& frame, int block, const Piece& piece, char* to) const;
  bool HasStaged(const OperationFrame& frame, int peer) const;
  OperationResult AwaitStaged(OperationFrame& frame, int peer) const;

  // Reductions only.
  OperationResult ReduceRound(OperationFrame& frame, const SharedResult& shared) const;
  bool ReducePiece(OperationFrame& frame, const Piece& piece, bool for_others) const;
  OperationResult GatherResults(OperationFrame& frame, const SharedResult& shared) const;

  // staged_copies.cc: operations that only copy.
  void StageCopies(OperationFrame& frame, size_t round, char* part) const;
  void CopyOwn(const OperationFrame& frame) const;
  OperationResult GatherCopies(OperationFrame& frame, const SharedResult& shared) const;

  // The elements that `owner` reduces in a round: of the buffer if all get all of it, else of the owner's block.
  Piece PieceOf(const OperationFrame& frame, size_t round, int owner) const;
  // What a round has of a block of `count` elements.
  Piece Clip(size_t round, size_t count) const;

  // Where the piece for `owner` lies in a part, and behind all pieces the writer's own results. A part that goes to and fro
  // has only the piece for the other rank, that of a scan one for all.
  size_t PieceOffset(int owner) const {
    return pieces_ == 1 ? 0 : static_cast<size_t>(owner) * piece_bytes_;
  }

  size_t ResultOffset() const { return pieces_ * piece_bytes_; }

  // Set by Begin; an operation that is not staged leaves them alone.
  StagingParts parts_;
  size_t piece_elements_;  // what one owner's piece of a round holds at most
  size_t piece_bytes_;     // from one owner's piece to the next
  size_t pieces_;          // in a part
  size_t count_;           // of rounds
  size_t staged_;          // rounds that this rank has staged
  size_t current_;         // round to reduce or gather
  bool reduced_;           // the current round has been reduced
  bool begun_ = false;
};

}  // namespace weft
