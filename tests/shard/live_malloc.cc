#include "tests/shard/live_malloc.h"

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include <malloc.h>

namespace weft {
namespace {

std::atomic<int64_t> live_bytes{0};
std::atomic<int64_t> peak_bytes{0};

#ifndef WEFT_SANITIZE
// What was asked for, in the last bytes of the block. malloc_usable_size() will not do: a block that is all that was left of a
// larger one keeps up to 16 bytes that nobody asked for, now and then.
constexpr size_t kNoteBytes = 16;

int64_t& NoteOf(void* block) {
  return *reinterpret_cast<int64_t*>(static_cast<char*>(block) + malloc_usable_size(block) -
                                     sizeof(int64_t));
}

size_t WithNote(size_t bytes) {
  return bytes > SIZE_MAX - kNoteBytes ? SIZE_MAX : bytes + kNoteBytes;
}

// A peak that two threads reach at once may be missed by a block of one of them.
void* Counted(void* block, size_t asked) {
  if (block == nullptr) return nullptr;
  const auto bytes = static_cast<int64_t>(asked);
  NoteOf(block) = bytes;
  const int64_t live = live_bytes.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  if (live > peak_bytes.load(std::memory_order_relaxed))
    peak_bytes.store(live, std::memory_order_relaxed);
  return block;
}

// Returns what was asked for.
size_t Uncount(void* block) {
  if (block == nullptr) return 0;
  const int64_t bytes = NoteOf(block);
  live_bytes.fetch_sub(bytes, std::memory_order_relaxed);
  return static_cast<size_t>(bytes);
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
  return weft::Counted(__libc_malloc(weft::WithNote(bytes)), bytes);
}

void* calloc(size_t count, size_t bytes) {
  const size_t asked = bytes != 0 && count > SIZE_MAX / bytes ? SIZE_MAX : count * bytes;
  return weft::Counted(__libc_calloc(1, weft::WithNote(asked)), asked);
}

void* realloc(void* block, size_t bytes) {
  const size_t before = weft::Uncount(block);
  if (block != nullptr && bytes == 0) {
    __libc_free(block);
    return nullptr;
  }
  void* const moved = __libc_realloc(block, weft::WithNote(bytes));
  if (moved == nullptr) weft::Counted(block, before);  // it stays
  return weft::Counted(moved, bytes);
}

void* memalign(size_t alignment, size_t bytes) {
  return weft::Counted(__libc_memalign(alignment, weft::WithNote(bytes)), bytes);
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
