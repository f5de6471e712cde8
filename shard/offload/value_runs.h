// Where params that are offloaded lie in the file, in pieces that a buffer takes.
//
//   for (const ValueRun& run : ValueRunsOf(windows, extent, buffer_bytes)) bytes += run.read_bytes();
//
// Thread-safety: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "shard/offload/block_store.h"
#include "shard/offload/state_windows.h"

namespace weft {

// Bytes of the file that lie side by side, as do the elements there in their space.
struct ValueRun {
  uint64_t offset = 0;
  size_t bytes = 0;
  size_t first = 0;  // element in the space

  // Whole blocks are read.
  uint64_t read_offset() const { return RoundDownToBlock(offset); }

  size_t read_bytes() const {
    return static_cast<size_t>(RoundUpToBlock(offset + bytes) - read_offset());
  }
};

// What this rank keeps of the extent, in order. No run reads more than `buffer_bytes`, a multiple of BlockStore::kAlignment.
std::vector<ValueRun> ValueRunsOf(const StateWindows& windows, int extent, size_t buffer_bytes);

}  // namespace weft
