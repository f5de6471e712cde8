// What a group of one rank does: it makes its result from its own buffers and announces nothing, for nobody waits.
//
//   if (prepared.protocol == Protocol::kSingleRank) FinishSingleRank(prepared, sequence, state);
//
// Thread-safety: as NodeState.
#pragma once

#include <cstdint>
#include <cstring>

#include "comm/kernels/reduce.h"
#include "comm/node/node_state.h"
#include "comm/node/prepared_call.h"

namespace weft {

// Not a copy: the bits of a reduction of one are those of any other, one NaN for all and rounded once.
inline void ReduceOwn(const PreparedCall& prepared, Isa isa) {
  const Collective& call = prepared.call;
  const void* const source = call.in;
  void* const destination = call.out;
  ReduceArguments arguments{.sources = &source,
                            .source_count = 1,
                            .destinations = &destination,
                            .destination_count = 1,
                            .count = call.count,
                            .divisor = 1};
  if (prepared.kernel != nullptr) return prepared.kernel(arguments);
  if (call.op == kOpUser) return ReduceByUser(*call.custom, call.dtype, arguments);
  arguments.factors = &call.custom->factor;
  FindReduceKernel(isa, call.dtype, call.op)(arguments);
}

// Writes the result of a call of Protocol::kSingleRank, and notes that the operation has been done.
inline void FinishSingleRank(const PreparedCall& prepared, uint64_t sequence, NodeState& state) {
  const Collective& call = prepared.call;
  if (prepared.buffers.out_bytes != 0) {
    if (prepared.shape.traits->reduces) {
      ReduceOwn(prepared, state.isa);
    } else if (call.in != call.out) {
      std::memcpy(call.out, call.in, prepared.buffers.out_bytes);
    }
  }
  state.completed = sequence;
  state.self().done.store(static_cast<uint32_t>(sequence), std::memory_order_release);
}

}  // namespace weft
