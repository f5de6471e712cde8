#include "tests/shard/live_malloc.h"

#include <atomic>
#include <cerrno>
#include <cstdlib>

#include <malloc.h>

namespace weft {
namespace {

std::atomic<int64_t> live_bytes{0};
std::atomic<int64_t> peak_bytes{0};

#ifndef WEFT_SANITIZE
// A peak that two threads reach at once may be missed by a block of one of them.
void* Counted(void* block) {
  if (block == nullptr) return nullptr;
  const auto bytes = static_cast<int64_t>(malloc_usable_size(block));
  const int64_t live = live_bytes.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  if (live > peak_bytes.load(std::memory_order_relaxed))
    peak_bytes.store(live, std::memory_order_relaxed);
  return block;
}

void Uncount(void* block) {
  if (block == nullptr) return;
  live_bytes.fetch_sub(static_cast<int64_t>(malloc_usable_size(block)), std::memory_order_relaxed);
}
#endif

}  // namespace

bool CountsMalloc() {
#ifdef WEFT_SANITIZE
  return false;
#else
  return true;
#endif
}

int64_t LiveMallocBytes() {
  return live_bytes.load(std::memory_order_relaxed);
}

int64_t TakeMallocPeak() {
  return peak_bytes.exchange(LiveMallocBytes(), std::memory_order_relaxed);
}

}  // namespace weft

#ifndef WEFT_SANITIZE
extern "C" {
void* __libc_malloc(size_t bytes);                      // NOLINT: glibc's own names
void* __libc_calloc(size_t count, size_t bytes);        // NOLINT
void* __libc_realloc(void* block, size_t bytes);        // NOLINT
void* __libc_memalign(size_t alignment, size_t bytes);  // NOLINT
void __libc_free(void* block);                          // NOLINT

void* malloc(size_t bytes) {
  return weft::Counted(__libc_malloc(bytes));
}

void* calloc(size_t count, size_t bytes) {
  return weft::Counted(__libc_calloc(count, bytes));
}

void* realloc(void* block, size_t bytes) {
  weft::Uncount(block);
  void* const moved = __libc_realloc(block, bytes);
  if (moved == nullptr && bytes != 0) weft::Counted(block);  // it stays
  return weft::Counted(moved);
}

void* memalign(size_t alignment, size_t bytes) {
  return weft::Counted(__libc_memalign(alignment, bytes));
}

void* aligned_alloc(size_t alignment, size_t bytes) {
  return memalign(alignment, bytes);
}

int posix_memalign(void** block, size_t alignment, size_t bytes) {
  void* const made = memalign(alignment, bytes);
  if (made == nullptr) return ENOMEM;
  *block = made;
  return 0;
}

void free(void* block) {
  weft::Uncount(block);
  __libc_free(block);
}
}
#endif
