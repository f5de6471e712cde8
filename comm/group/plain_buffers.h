// What a call needs of an input and an output without gaps, and whether two pointers will do.
//
//   PlainBuffers buffers;
//   if (!MeasureBuffers(call, rank, size, &buffers)) ...      // they would not fit in memory
//   if (buffers.Allow(call.in, call.out)) ...                 // the rest is the same for every such call
//
// Thread-safety: values.
#pragma once

#include <cstddef>
#include <cstdint>

#include "comm/group/collective.h"

namespace weft {

struct PlainBuffers {
  size_t in_bytes = 0;  // 0: not looked at
  size_t out_bytes = 0;
  // The one allowed overlap: these bytes of in and of out have the same address.
  size_t in_own = 0;
  size_t out_own = 0;

  // Neither is NULL where it is needed, and they do not overlap but in place.
  bool Allow(const void* in, const void* out) const {
    const auto in_at = reinterpret_cast<uintptr_t>(in);
    const auto out_at = reinterpret_cast<uintptr_t>(out);
    // How far one begins behind the other; a huge number if it begins before.
    const bool apart = out_at - in_at >= in_bytes && in_at - out_at >= out_bytes;
    if (apart && in != nullptr && out != nullptr) return true;
    if ((in == nullptr && in_bytes != 0) || (out == nullptr && out_bytes != 0)) return false;
    return apart || in_bytes == 0 || out_bytes == 0 || in_at + in_own == out_at + out_own;
  }
};

// For a call without a layout, whose numbers have been checked; false if the larger side's bytes on all
// ranks together are more than PTRDIFF_MAX.
inline bool MeasureBuffers(const Collective& call, int rank, int size, PlainBuffers* buffers) {
  const OpTraits& traits = TraitsOf(call.kind);
  size_t block = 0;
  size_t total = 0;
  if (call.kind == OpKind::kBarrier) return true;
  if (__builtin_mul_overflow(call.count, ElementBytes(call), &block) ||
      __builtin_mul_overflow(block, static_cast<size_t>(size), &total) || total > PTRDIFF_MAX) {
    return false;
  }
  if (HasInput(call, rank)) buffers->in_bytes = traits.in_blocks ? total : block;
  if (HasOutput(call, rank)) buffers->out_bytes = traits.out_blocks ? total : block;
  // Where one side has a block for each rank, the other may be the own one of them.
  const size_t own = static_cast<size_t>(rank) * block;
  if (traits.in_blocks && !traits.out_blocks) buffers->in_own = own;
  if (traits.out_blocks && !traits.in_blocks) buffers->out_own = own;
  return true;
}

}  // namespace weft
