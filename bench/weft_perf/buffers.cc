#include "bench/weft_perf/buffers.h"

#include <cerrno>
#include <cstring>

#include <sys/mman.h>

#include "weft/mem.h"

#include "bench/weft_perf/pattern.h"
#include "bench/weft_perf/peers.h"

namespace weft::perf {

Buffer::~Buffer() {
  // What is shared goes with its group: after a failure not all ranks may come to free it together.
  if (block_ == nullptr || memory_ == Memory::kShared) return;
  if (memory_ == Memory::kSymmetric) {
    static_cast<void>(weft_mem_free(block_));
    return;
  }
  if (memory_ == Memory::kRegistered && weft_mem_deregister(block_) != WEFT_SUCCESS) return;
  munmap(block_, allocated_);
}

Outcome Buffer::Allocate(size_t bytes, size_t shift_bytes_max, Memory memory, weft_group_t group) {
  // Whole pages: what is registered consists of them.
  const size_t used = kPage + bytes + shift_bytes_max + kCanaryBytes;
  const size_t needed = (used + kPage - 1) / kPage * kPage;
  if (needed < bytes) return Fail(ExitCode::kInternal, Printf("%zu bytes are too many", bytes));
  void* block = nullptr;
  if (memory == Memory::kSymmetric) {
    const weft_result_t result = weft_mem_alloc(needed, 0, &block);
    if (result != WEFT_SUCCESS) return LibraryFailure("allocating symmetric buffers", result);
  } else if (memory == Memory::kShared) {
    const weft_result_t result = weft_mem_alloc_shared(group, needed, &block);
    if (result != WEFT_SUCCESS) return LibraryFailure("allocating a shared buffer", result);
  } else {
    block = mmap(nullptr, needed, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED) {
      return Fail(ExitCode::kInternal, Printf("no memory for a buffer of %zu bytes: %s; lower -e",
                                              needed, std::strerror(errno)));
    }
  }
  block_ = static_cast<unsigned char*>(block);
  allocated_ = needed;
  memory_ = memory == Memory::kRegistered ? Memory::kPrivate : memory;
  std::memset(block_, 0, needed);
  if (memory != Memory::kRegistered) return {};
  const weft_result_t result = weft_mem_register(block_, needed, 0);
  if (result != WEFT_SUCCESS) return LibraryFailure("registering the buffers", result);
  memory_ = memory;
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
