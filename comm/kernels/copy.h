// Copies that do not take the destination into this core's caches.
//
//   const CopyKernel copy = FindStreamCopy(isa);
//   copy(slot, input, bytes);
//   ready.store(sequence, std::memory_order_release);
//
// What they are for: a line that another core has read is shared, and an ordinary store to it has to
// take it away from that core first and wait for its contents. A streamed line is written whole, so
// that nothing has to be fetched. Measured on an AMD EPYC 9004 (Zen 4), per line: ordinary stores
// 7 ns within a core complex and 28 ns across, streamed 2 ns; whoever reads the line afterwards pays
// about as much as for one from another core's cache. Where the line is already this core's own,
// ordinary stores win: the caller knows, and decides by the place or by what was measured.
//
// Thread-safety: pure functions.
#pragma once

#include <cstddef>

#include "comm/kernels/isa.h"

namespace weft {

// Copies `bytes` bytes; pointers of any alignment, no overlap, 0 bytes do nothing.
using CopyKernel = void (*)(void* to, const void* from, size_t bytes);

// Streams the 64-byte lines that lie wholly in [to, to + bytes) and writes the rest with ordinary
// stores. A release store after it publishes all of it: weakly ordered stores are fenced inside. Plain
// memcpy for Isa::kScalar, for which nothing streams. `isa` is one that this CPU has.
CopyKernel FindStreamCopy(Isa isa);

// What it finds, compiled for each instruction set (copy_stream.cc).
template <Isa kIsa>
void StreamCopy(void* to, const void* from, size_t bytes);

}  // namespace weft
