#include "comm/group/fork.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18  // Linux 4.14
#endif

namespace weft::fork_internal {

constinit Page page;

namespace {

// The last number given, also by the processes that this one was forked from: a child counts on from its parent.
constinit std::atomic<uint32_t> last{0};

void Wipe() {
  page.generation.store(0, std::memory_order_relaxed);
}

// To be told twice does no harm, so threads that come here together need no lock, which a child could find taken.
void WatchForForks() {
  const bool wiped = sysconf(_SC_PAGESIZE) == static_cast<long>(kPageBytes) &&
                     madvise(&page, sizeof(page), MADV_WIPEONFORK) == 0;
  if (!wiped) pthread_atfork(nullptr, nullptr, Wipe);
}

}  // namespace

uint32_t Begin() {
  WatchForForks();
  const uint32_t next = last.fetch_add(1, std::memory_order_relaxed) + 1;
  uint32_t current = 0;
  return page.generation.compare_exchange_strong(current, next) ? next : current;
}

}  // namespace weft::fork_internal
