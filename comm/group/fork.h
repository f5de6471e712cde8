// Telling a forked child that a handle belongs to its parent.
//
// A child inherits the handles but not the mappings of the shared heap (MADV_DONTFORK): using one
// would fault. So a group remembers the generation it was made in, and calls compare.
// Thread-safety: any thread.
#pragma once

#include <atomic>
#include <cstdint>

namespace weft {

namespace fork_internal {
// 0 until it is first asked for.
[[gnu::visibility("hidden")]] extern constinit std::atomic<uint32_t> generation;
uint32_t Begin();
}  // namespace fork_internal

// Starts at 1 and is one higher in every forked child.
inline uint32_t ForkGeneration() {
  const uint32_t current = fork_internal::generation.load(std::memory_order_relaxed);
  return current != 0 ? current : fork_internal::Begin();
}

// True in the process in which ForkGeneration() has said `generation`.
inline bool IsForkGeneration(uint32_t generation) {
  return fork_internal::generation.load(std::memory_order_relaxed) == generation;
}

}  // namespace weft
