#include "comm/group/fork.h"

#include <pthread.h>

namespace weft::fork_internal {

constinit std::atomic<uint32_t> generation{0};

namespace {

void CountFork() {
  generation.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

uint32_t Begin() {
  static const bool registered = [] {
    pthread_atfork(nullptr, nullptr, CountFork);
    uint32_t expected = 0;
    generation.compare_exchange_strong(expected, 1);
    return true;
  }();
  (void)registered;
  return generation.load(std::memory_order_relaxed);
}

}  // namespace weft::fork_internal
