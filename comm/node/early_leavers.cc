#include "comm/node/early_leavers.h"

#include <optional>

namespace weft {

// Nobody ends an operation before all have come to it, so the next one is the same for all but
// those that still end the one before.
bool CallsDiffer(const NodeState& state) {
  uint32_t done = state.self().done.load(std::memory_order_acquire);
  for (int rank = 0; rank < state.size; ++rank) {
    const uint32_t other = state.control(rank).done.load(std::memory_order_acquire);
    if (static_cast<int32_t>(other - done) > 0) done = other;
  }
  std::optional<uint32_t> signature;
  for (int rank = 0; rank < state.size; ++rank) {
    const Arrival& line = state.control(rank).arrivals[(done + 1) % kWindow];
    if (line.sequence.load(std::memory_order_acquire) != done + 1) continue;
    if (signature && *signature != line.signature) return true;
    signature = line.signature;
  }
  return false;
}

}  // namespace weft
