// Small operations: the data came with the arrivals, in the line or in a slot, and every rank makes its
// own result.
#include <cstring>

#include "comm/node/operation.h"

namespace weft {

// This rank's contribution, its blocks packed.
void Operation::PackInput(const NodeState& state, char* to) const {
  if (call_.kind == OpKind::kBarrier || !HasInput(call_, state.rank)) return;
  if (call_.layout == nullptr) {
    const size_t bytes = InputBytes(call_, state.size);
    if (bytes > 0) std::memcpy(to, call_.in, bytes);
    return;
  }
  const int blocks = traits().in_blocks ? state.size : 1;
  for (int block = 0; block < blocks; ++block) {
    CopyIn(call_, block, 0, InCount(call_, block),
           to + PackedOffset(call_, block) * ElementBytes(call_));
  }
}

// What `peer` contributed, packed. The own contribution is read where it is if it lies in one piece.
const char* Operation::DataOf(const NodeState& state, int peer) const {
  if (peer == state.rank && call_.layout == nullptr) return static_cast<const char*>(call_.in);
  if (size_ == Size::kSlot) return state.segment.slot(peer, slot_);
  return reinterpret_cast<const char*>(state.control(peer).arrivals[sequence_ % kWindow].data);
}

void Operation::OneShot(NodeState& state) {
  if (call_.kind == OpKind::kBarrier || call_.count == 0 || !HasOutput(call_, state.rank)) return;
  const size_t element = ElementBytes(call_);
  const int block = InBlock(state.rank);
  const size_t offset = PackedOffset(call_, block) * element;
  if (!traits().reduces) {
    for (int peer = 0; peer < state.size; ++peer) {
      if (!HasInput(call_, peer)) continue;
      const int from = OutBlock(peer);
      CopyOut(call_, from, 0, OutCount(call_, from), DataOf(state, peer) + offset);
    }
    return;
  }
  const size_t count = InCount(call_, block);
  for (size_t done = 0; done < count;) {
    const Run run = OutRun(call_, 0, done, count - done);
    const void* sources[kNodeRanksMax];
    for (int peer = 0; peer < state.size; ++peer) {
      sources[peer] = DataOf(state, peer) + offset + done * element;
    }
    void* const destination = run.memory;
    RunKernel(state, sources, &destination, 1, run.count);
    done += run.count;
  }
}

}  // namespace weft
