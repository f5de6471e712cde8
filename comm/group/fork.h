// Telling a forked child that what it holds belongs to its parent.
//
//   const Origin origin_;                       // a member of what only its own process may touch
//   if (!origin_.here()) return ...             // WEFT_FORKED
//
// A child inherits handles and words, but neither the threads nor the mappings of shared heaps (MADV_DONTFORK): using
// them would fault, wait for threads that are not there, or write into its parent's operations. So what must not be
// touched remembers the generation of processes that it was made in, and every call compares.
//
// The generation stands in a page that the kernel wipes in a child (MADV_WIPEONFORK), whichever call made
// it; where the kernel does not, the child is told by pthread_atfork, so of fork() only. To compare costs a
// load; the process id would cost a system call.
// Thread-safety: any thread.
#pragma once

#include <atomic>
#include <cstdint>

namespace weft {

namespace fork_internal {

constexpr uint32_t kPageBytes = 4096;

struct alignas(kPageBytes) Page {
  std::atomic<uint32_t> generation{0};  // 0 until it is first asked for
};

static_assert(sizeof(Page) == kPageBytes, "nothing else may be wiped");

[[gnu::visibility("hidden")]] extern constinit Page page;
uint32_t Begin();
}  // namespace fork_internal

// Starts at 1 and is higher in every forked child.
inline uint32_t ForkGeneration() {
  const uint32_t current = fork_internal::page.generation.load(std::memory_order_relaxed);
  return current != 0 ? current : fork_internal::Begin();
}

// True in the process in which ForkGeneration() has said `generation`.
inline bool IsForkGeneration(uint32_t generation) {
  return fork_internal::page.generation.load(std::memory_order_relaxed) == generation;
}

// The process in which an object was made.
class Origin {
 public:
  Origin() : generation_(ForkGeneration()) {}

  // False in a forked child of it.
  bool here() const { return IsForkGeneration(generation_); }

 private:
  const uint32_t generation_;
};

}  // namespace weft
