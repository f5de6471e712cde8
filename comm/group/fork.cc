#include "comm/group/fork.h"

#include <atomic>

#include <pthread.h>

namespace weft {
namespace {

std::atomic<uint32_t> generation{0};

void CountFork() {
  generation.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

uint32_t ForkGeneration() {
  const uint32_t current = generation.load(std::memory_order_relaxed);
  if (current != 0) return current;
  static const bool registered = [] {
    pthread_atfork(nullptr, nullptr, CountFork);
    uint32_t expected = 0;
    generation.compare_exchange_strong(expected, 1);
    return true;
  }();
  (void)registered;
  return generation.load(std::memory_order_relaxed);
}

}  // namespace weft
