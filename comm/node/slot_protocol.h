// Small operations: the data comes with the arrivals, in the line or in a slot, and every rank makes its own result.
//
//   const uint64_t older = slot.Choose(frame);   // the operation that all must have done before the slot is written
//   slot.Put(frame, line);
//   ... all have arrived ...
//   slot.MakeResult(frame, /*shared=*/false);
//
// A rank has a few slots in the group's segment (slots.h), and for contributions from 4 KiB on slots in a ring of its
// staging: the lines of a few slots that are written again and again must be taken back from the peers that read them,
// which for so many lines costs more than finding the place of a ring's.
//
// Thread-safety: none; as NodeState.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "comm/node/operation_frame.h"
#include "comm/node/slots.h"

namespace weft {

class SlotProtocol {
 public:
  // True if contributions of so many bytes have their slots in the ring. Ranks whose last arriver reduces for all have a
  // place for a result of each of the few slots, and these are in the CPUs' caches anyhow; two ranks that exchange their
  // slots want to come back to them soon.
  static bool InRing(size_t contribution_bytes, const NodeState& state) {
    return contribution_bytes >= kRingSlotBytesMin && state.tuning.combine == 0 &&
           !state.slots.swap();
  }

  // The place of this operation's data. Returns the operation that used it before, 0 if none did.
  uint64_t Choose(const OperationFrame& frame) {
    const NodeState& state = frame.state;
    if (frame.prepared.slot_in_ring) {
      return state.staging.LastSlotUser(state, frame.shape().contribution_bytes);
    }
    slot_ = state.slots.next();
    return state.slots.UserOf(slot_);
  }

  // This rank's contribution, into its line or its slot, which is used up by that.
  void PutInLine(const OperationFrame& frame, Arrival& line) const {
    Pack(frame, reinterpret_cast<char*>(line.data));
  }

  void Put(const OperationFrame& frame) {
    if (frame.prepared.slot_in_ring) return PutInRing(frame);
    Pack(frame, Of(frame.state, frame.state.rank));
    frame.state.slots.Take(frame.sequence);
  }

  // The slot that `rank` writes, which Choose has chosen.
  char* Of(const NodeState& state, int rank) const {
    return state.segment.slot(slot_.swapped ? state.size - 1 - rank : rank, slot_.index);
  }

  // The number of the slot.
  uint32_t index() const { return slot_.index; }

  // From all contributions, when all ranks have arrived. `shared`: other ranks write the same place.
  void MakeResult(const OperationFrame& frame, bool shared) const;

 private:
  // From this size on the lines of a slot cost more than finding the place of a ring's.
  static constexpr size_t kRingSlotBytesMin = 4096;

  static void Pack(const OperationFrame& frame, char* to);
  void PutInRing(const OperationFrame& frame);
  void MakePlainResult(const OperationFrame& frame, bool shared) const;
  void MakeLaidOutResult(const OperationFrame& frame) const;
  const char* Contribution(const OperationFrame& frame, int peer) const;

  Slots::Slot slot_;
  size_t offset_;  // of a slot in the ring: in staging
};

}  // namespace weft
