// Small operations: the data came with the arrivals, in the line or in a slot, and every rank makes its
// own result.
#include <cstring>

#include "comm/node/operation.h"

namespace weft {

// This rank's contribution, its blocks packed.
void Operation::PackInput(NodeState& state, char* to) const {
  if (call_.kind == OpKind::kBarrier || !shape_.has_input) return;
  if (call_.layout == nullptr) {
    const size_t bytes = shape_.contribution_bytes;
    if (size_ == Size::kSlot && state.slots_turn) {  // lines that this rank has
      std::memcpy(to, call_.in, bytes);
    } else if (bytes > 0) {
      state.stores.Copy(to, call_.in, bytes);
    }
    return;
  }
  const int blocks = traits().in_blocks ? state.size : 1;
  for (int block = 0; block < blocks; ++block) {
    CopyIn(call_, block, 0, InCount(call_, block),
           to + PackedOffset(call_, block) * shape_.element_bytes);
  }
}

void Operation::OneShot(NodeState& state) {
  if (shape_.contribution_bytes == 0 || !shape_.has_output) return;
  return call_.layout == nullptr ? OneShotPlain(state) : OneShotLaidOut(state);
}

void Operation::OneShotLaidOut(NodeState& state) {
  const int block = InBlock(state.rank);
  const size_t offset = PackedOffset(call_, block) * shape_.element_bytes;
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
      sources[peer] = DataOf(state, peer) + offset + done * shape_.element_bytes;
    }
    void* const destination = run.memory;
    RunKernel(state, sources, &destination, 1, run.count);
    done += run.count;
  }
}

// For buffers without gaps: the time of a small call.
void Operation::OneShotPlain(NodeState& state) {
  const size_t offset =
      traits().in_blocks ? static_cast<size_t>(state.rank) * shape_.block_bytes : 0;
  char* const out = static_cast<char*>(call_.out);
  if (traits().reduces) {
    const void* sources[kNodeRanksMax];
    for (int peer = 0; peer < state.size; ++peer)
      sources[peer] = DataOf(state, peer) + offset;
    void* const destination = out;
    return RunKernel(state, sources, &destination, 1, call_.count);
  }
  for (int peer = 0; peer < state.size; ++peer) {
    if (!HasInput(call_, peer)) continue;
    const char* const from = DataOf(state, peer) + offset;
    char* const to =
        out + (traits().out_blocks ? static_cast<size_t>(peer) * shape_.block_bytes : 0);
    if (from != to) std::memcpy(to, from, shape_.block_bytes);
  }
}

}  // namespace weft
