#include "comm/node/slot_protocol.h"

#include <cstring>

namespace weft {

uint64_t SlotProtocol::Choose(const OperationFrame& frame) {
  slot_ = frame.state.slots.next();
  return frame.state.slots.UserOf(slot_);
}

uint64_t SlotProtocol::ChooseInRing(const OperationFrame& frame) {
  return frame.state.staging.LastSlotUser(frame.state, frame.shape().contribution_bytes);
}

void SlotProtocol::Put(const OperationFrame& frame) {
  if (!frame.prepared.slot_in_ring) {
    Pack(frame, Of(frame.state, frame.state.rank));
    return frame.state.slots.Take(frame.sequence);
  }
  Staging& staging = frame.state.staging;
  offset_ = staging.TakeSlot(frame.state, frame.shape().contribution_bytes, frame.sequence);
  Pack(frame, staging.base() + offset_);
}

// Blocks one behind the other.
void SlotProtocol::Pack(const OperationFrame& frame, char* to) {
  const Collective& call = frame.call();
  const CallShape& shape = frame.shape();
  if (call.kind == OpKind::kBarrier || !shape.has_input) return;
  if (call.layout == nullptr) {
    const size_t bytes = shape.contribution_bytes;
    if (frame.prepared.protocol == Protocol::kSlot && frame.state.slots.swap()) {
      std::memcpy(to, call.in, bytes);  // this rank has these lines
    } else if (bytes > 0) {
      frame.state.stores.Copy(to, call.in, bytes);
    }
    return;
  }
  const int blocks = frame.traits().in_blocks ? frame.state.size : 1;
  for (int block = 0; block < blocks; ++block) {
    CopyIn(call, block, 0, InCount(call, block),
           to + PackedOffset(call, block) * shape.element_bytes);
  }
}

// Byte `offset` of what each rank contributed, packed.
inline void SlotProtocol::FindContributions(const OperationFrame& frame, size_t offset,
                                            const void** sources) const {
  const NodeState& state = frame.state;
  if (frame.prepared.protocol == Protocol::kInline) {
    for (int peer = 0; peer < state.size; ++peer)
      sources[peer] = frame.ArrivalOf(peer).data + offset;
  } else if (!frame.prepared.slot_in_ring) {
    for (int peer = 0; peer < state.size; ++peer)
      sources[peer] = Of(state, peer) + offset;
  } else {
    for (int peer = 0; peer < state.size; ++peer)
      sources[peer] = state.staging.Known(peer) + offset_ + offset;
  }
}

void SlotProtocol::MakeResult(const OperationFrame& frame, bool shared) const {
  if (frame.shape().contribution_bytes == 0 || !frame.shape().has_output) return;
  if (frame.call().layout == nullptr) return MakePlainResult(frame, shared);
  MakeLaidOutResult(frame);
}

void SlotProtocol::MakeLaidOutResult(const OperationFrame& frame) const {
  const NodeState& state = frame.state;
  const Collective& call = frame.call();
  const size_t element = frame.shape().element_bytes;
  const int block = frame.InBlock(state.rank);
  const size_t offset = PackedOffset(call, block) * element;
  const void* sources[kNodeRanksMax];
  if (!frame.traits().reduces) {
    FindContributions(frame, offset, sources);
    for (int peer = 0; peer < state.size; ++peer) {
      if (!HasInput(call, peer)) continue;
      const int from = frame.OutBlock(peer);
      CopyOut(call, from, 0, OutCount(call, from), sources[peer]);
    }
    return;
  }
  const size_t count = InCount(call, block);
  for (size_t done = 0; done < count;) {
    const Run run = OutRun(call, 0, done, count - done);
    FindContributions(frame, offset + done * element, sources);
    void* const destination = run.memory;
    frame.RunKernel(sources, &destination, 1, run.count);
    done += run.count;
  }
}

// For buffers without gaps: the time of a small call. The own contribution is read where it is, unless another rank
// writes its result there.
void SlotProtocol::MakePlainResult(const OperationFrame& frame, bool shared) const {
  const NodeState& state = frame.state;
  const Collective& call = frame.call();
  const size_t block_bytes = frame.shape().block_bytes;
  const OpTraits& traits = frame.traits();
  const size_t offset = traits.in_blocks ? static_cast<size_t>(state.rank) * block_bytes : 0;
  char* const out = static_cast<char*>(call.out);
  const void* sources[kNodeRanksMax];
  FindContributions(frame, offset, sources);
  if (traits.reduces) {
    if (!shared) sources[state.rank] = static_cast<const char*>(call.in) + offset;
    void* const destination = out;
    return frame.RunKernel(sources, &destination, 1, call.count);
  }
  for (int peer = 0; peer < state.size; ++peer) {
    if (!HasInput(call, peer)) continue;
    const bool own = peer == state.rank && !shared;
    const void* const from = own ? static_cast<const char*>(call.in) + offset : sources[peer];
    char* const to = out + (traits.out_blocks ? static_cast<size_t>(peer) * block_bytes : 0);
    if (from != to) std::memcpy(to, from, block_bytes);
  }
}

}  // namespace weft
