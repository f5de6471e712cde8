// A rank's few slots in the group's segment: which one the next operation uses, and which operation used each one last.
//
//   const Slots::Slot slot = slots.next();
//   if (all ranks are done with slots.UserOf(slot)) { write to it; slots.Take(sequence); }
//
// Two ranks exchange their slots every other time round, and so write where they read last (ping_pong_area.h says why).
// Then two slots are enough not to wait: the arrival of an operation says that the one before the last is done.
//
// Thread-safety: none; as NodeState.
#pragma once

#include <array>
#include <cstdint>

#include "comm/node/segment.h"

namespace weft {

class Slots {
 public:
  struct Slot {
    uint32_t index;
    bool swapped;  // each of the two ranks writes to the other one's
  };

  Slots() = default;

  explicit Slots(bool swap) : count_(swap ? kSwappedCount : kSlotCount), swap_(swap) {}

  // True if two ranks exchange them.
  bool swap() const { return swap_; }

  Slot next() const { return next_; }

  // The operation that used it last; 0 if none did.
  uint64_t UserOf(const Slot& slot) const { return users_[slot.index]; }

  // next() is the slot of operation `sequence`.
  void Take(uint64_t sequence) {
    users_[next_.index] = sequence;
    if (++next_.index == count_) {
      next_.index = 0;
      next_.swapped = swap_ && !next_.swapped;
    }
  }

 private:
  static constexpr uint32_t kSwappedCount = 2;

  Slot next_{};
  uint32_t count_ = kSlotCount;
  bool swap_ = false;
  std::array<uint64_t, kSlotCount> users_{};
};

}  // namespace weft
