// A call with everything that follows from its arguments: worked out once, and kept for the next call with the
// same ones.
//
//   const PreparedCall prepared(call, state);
//   Operation operation(prepared, sequence, state);
//
//   if (PreparedCall* again = calls.Find(key, in, out)) ...
//   calls.Keep(std::move(prepared));
//
// A group keeps the last few calls that IsPlain (comm/group/call_key.h), by their keys: loops of
// real programs make the same few calls again and again, with other buffers.
// Thread-safety: a PreparedCall is a value; PreparedCalls is guarded by the group's issue lock.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "comm/group/call_key.h"
#include "comm/group/collective.h"
#include "comm/group/plain_buffers.h"
#include "comm/kernels/reduce.h"
#include "comm/node/call_facts.h"
#include "comm/group/call_identity.h"
#include "comm/node/node_state.h"
#include "comm/recorder/ring.h"
#include "comm/select/select_protocol.h"

namespace weft {

struct PreparedCall {
  // Matches no call.
  PreparedCall() = default;

  PreparedCall(const Collective& of, const NodeState& state);

  // In place of those that `call` had; of a call without a purpose, whose record stands where the tag does.
  void SetExtras(const CallExtras& extras) {
    call.timeout_ns = extras.timeout_ns;
    call.tag = recorded.tag = extras.tag;
    call.priority = extras.priority;
    call.background = extras.background;
  }

  // By what all ranks say of their buffers; kAuto: not worked out, SelectProtocol tells.
  Protocol ProtocolFor(bool direct, bool readable) const { return by_reach[direct][readable]; }

  CallKey key{.kind_root = UINT64_MAX};
  Collective call;
  PlainBuffers buffers;  // of a call with a layout only how many bytes are counted
  CallShape shape;
  CallFacts facts;
  CallIdentity identity{};
  uint32_t signature = 0;  // made from identity
  RecordedArguments recorded;
  ReduceKernel kernel = nullptr;        // nullptr: a reduction made at run time, or no reduction
  Protocol protocol = Protocol::kAuto;  // kAuto: known when all ranks have arrived
  // Then, by whether the buffers are direct, and readable: worked out ahead for calls that may be kept.
  std::array<std::array<Protocol, 2>, 2> by_reach{};
  bool slot_in_ring = false;  // see SlotProtocol
  Meeting meeting = Meeting::kLines;
  bool announces_more = false;  // the line has a factor, or ranks count their arrivals
};

class PreparedCalls {
 public:
  // The kept call of that key with these buffers in it; nullptr if there is none, or the buffers will not do.
  PreparedCall* Find(const CallKey& key, const void* in, void* out) {
    PreparedCall& kept = kept_[Place(key)];
    if (kept.key != key || !kept.buffers.Allow(in, out)) return nullptr;
    kept.call.in = in;
    kept.call.out = out;
    return &kept;
  }

  // In the place of an older one, and without its extras. IsPlain(prepared.call).
  void Keep(PreparedCall&& prepared) {
    PreparedCall& kept = kept_[Place(prepared.key)];
    kept = std::move(prepared);
    kept.SetExtras({});
  }

 private:
  static constexpr int kPlaceBits = 3;

  static size_t Place(const CallKey& key) {
    constexpr uint64_t kOdd = 0x9e3779b97f4a7c15ULL;
    return (key.kind_root + key.dtype_op + key.count) * kOdd >> (64 - kPlaceBits);
  }

  std::array<PreparedCall, 1 << kPlaceBits> kept_;
};

}  // namespace weft
