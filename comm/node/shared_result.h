// The result of an operation that is the same for all ranks, where several of them get it in one place
// (weft_mem_alloc_shared).
//
//   shared.FindOwn(frame);                       // before the arrival, which says so
//   shared.NoteArrival(peer);                    // of every rank whose arrival said so
//   shared.FindSharers(frame);                   // once all have arrived
//   if (shared.WritesFrom(state, peer)) ...      // who writes which part
//   return shared.End(frame);                    // and nobody returns before all have written
//
// Nothing may write to such a place once another of its ranks has returned, and no byte is to be written by two of them
// at the same time. Who writes what depends on the protocol:
//   inline, slot   places are not known: the sharers write one after the other, in the order of ranks
//   direct         places are known: of the ranks that have the same one, everybody writes the slice that it reduces or
//                  the block that it contributes, and the first one writes the blocks of ranks outside
//   staged         as direct; a rank leaves the results of those that have its own place alone
// In the end the sharers wait until all of them have written: in direct operations as in any other, in the rest by
// `wrote`. All of this is decided from all arrivals, alike on all ranks. Places of peers are written to, so a rank that
// does so says that it accesses peers' memory, as in direct operations.
//
// Thread-safety: none; as NodeState.
#pragma once

#include <cstdint>

#include "comm/node/operation_frame.h"

namespace weft {

class SharedResult {
 public:
  // Before the arrival: whether this rank's out lies in a shared block.
  void FindOwn(OperationFrame& frame);

  // This rank's out does.
  bool announced() const { return owner_ != nullptr; }

  // Where it lies, into the arrival.
  void Describe(const OperationFrame& frame, Arrival& line, BufferPlaces& places) const;

  // The out of `peer`, which has arrived, lies in a shared block.
  void NoteArrival(int peer) { outs_ |= uint64_t{1} << peer; }

  // All ranks have arrived: finds those whose out is this rank's.
  void FindSharers(const OperationFrame& frame);

  // A rank's out lies in a shared block.
  bool any_announced() const { return outs_ != 0; }

  // Two ranks or more may have the same out.
  bool SeveralAnnounced() const { return (outs_ & (outs_ - 1)) != 0; }

  // This rank's out is not its alone.
  bool is_shared() const { return sharers_ != 0; }

  // Every rank's out is the same place.
  bool IsSharedByAll(const NodeState& state) const {
    return __builtin_popcountll(sharers_) == state.size;
  }

  // True if this rank is the one to put what comes from `peer` into its out.
  bool WritesFrom(const NodeState& state, int peer) const;

  // Until the sharers before this rank have written.
  OperationResult AwaitTurn(OperationFrame& frame) const {
    return AwaitWrote(frame, frame.state.rank);
  }

  // This rank has written what it has to.
  void PublishWrote(OperationFrame& frame) const;

  // Until all sharers have written; then the operation is done.
  OperationResult AwaitWriters(OperationFrame& frame) const;

 private:
  // Until the sharers among the ranks before `end` have written.
  OperationResult AwaitWrote(OperationFrame& frame, int end) const;

  uint64_t outs_ = 0;     // bit per rank that has arrived: its out lies in a shared block
  uint64_t sharers_ = 0;  // the ranks whose out is this rank's, if it is not this rank's alone
  const NodePeer* owner_ = nullptr;  // of the block that holds this rank's out
  uint64_t offset_;                  // there
};

}  // namespace weft
