#include "comm/node/slot_protocol.h"

#include <cstring>

namespace weft {

void SlotProtocol::PutInRing(const OperationFrame& frame) {
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

// What `peer` contributed, packed.
inline const char* SlotProtocol::Contribution(const OperationFrame& frame, int peer) const {
  if (frame.prepared.protocol == Protocol::kInline) {
    return reinterpret_cast<const char*>(frame.ArrivalOf(peer).data);
  }
  if (!frame.prepared.slot_in_ring) return Of(frame.state, peer);
  return frame.state.staging.Known(peer) + offset_;
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
  if (!frame.traits().reduces) {
    for (int peer = 0; peer < state.size; ++peer) {
      if (!HasInput(call, peer)) continue;
      const int from = frame.OutBlock(peer);
      CopyOut(call, from, 0, OutCount(call, from), Contribution(frame, peer) + offset);
    }
    return;
  }
  const size_t count = InCount(call, block);
  for (size_t done = 0; done < count;) {
    const Span span = OutSpan(call, 0, done, count - done);
    const void* sources[kNodeRanksMax];
    for (int peer = 0; peer < state.size; ++peer)
      sources[peer] = Contribution(frame, peer) + offset + done * element;
    void* const destination = span.memory;
    frame.RunKernel(sources, &destination, 1, span.count);
    done += span.count;
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
  const auto source = [&](int peer) {
    const bool own = peer == state.rank && !shared;
    return (own ? static_cast<const char*>(call.in) : Contribution(frame, peer)) + offset;
  };
  if (traits.reduces) {
    const void* sources[kNodeRanksMax];
    for (int peer = 0; peer < frame.shape().combined_ranks; ++peer)
      sources[peer] = source(peer);
    void* const destination = out;
    return frame.RunKernel(sources, &destination, 1, call.count);
  }
  for (int peer = 0; peer < state.size; ++peer) {
    if (!HasInput(call, peer)) continue;
    const char* const from = source(peer);
    char* const to = out + (traits.out_blocks ? static_cast<size_t>(peer) * block_bytes : 0);
    if (from != to) std::memcpy(to, from, block_bytes);
  }
}

}  // namespace weft
