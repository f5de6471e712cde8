#include "bench/weft_perf/buffers.h"

#include <cerrno>
#include <cstring>

#include <sys/mman.h>

#include "weft/mem.h"

#include "bench/weft_perf/pattern.h"
#include "bench/weft_perf/peers.h"

namespace weft::perf {

Buffer::~Buffer() {
  if (block_ == nullptr) return;
  if (symmetric_) {
    static_cast<void>(weft_mem_free(block_));
  } else {
    munmap(block_, allocated_);
  }
}

Outcome Buffer::Allocate(size_t bytes, size_t shift_bytes_max, bool symmetric) {
  const size_t needed = kPage + bytes + shift_bytes_max + kCanaryBytes;
  if (needed < bytes) return Fail(ExitCode::kInternal, Printf("%zu bytes are too many", bytes));
  void* block = nullptr;
  if (symmetric) {
    const weft_result_t result = weft_mem_alloc(needed, 0, &block);
    if (result != WEFT_SUCCESS) return LibraryFailure("allocating symmetric buffers", result);
  } else {
    block = mmap(nullptr, needed, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED) {
      return Fail(ExitCode::kInternal, Printf("no memory for a buffer of %zu bytes: %s; lower -e",
                                              needed, std::strerror(errno)));
    }
  }
  block_ = static_cast<unsigned char*>(block);
  allocated_ = needed;
  symmetric_ = symmetric;
  std::memset(block_, 0, needed);
  return {};
}

void Buffer::SetCanaries(size_t offset, size_t bytes) {
  std::memset(data() + offset - kCanaryBytes, kCanary, kCanaryBytes);
  std::memset(data() + offset + bytes, kCanary, kCanaryBytes);
}

size_t Buffer::ChangedCanaries(size_t offset, size_t bytes) const {
  return CountChangedCanaries(data() + offset - kCanaryBytes, kCanaryBytes) +
         CountChangedCanaries(data() + offset + bytes, kCanaryBytes);
}

}  // namespace weft::perf
