#include "weft/mem.h"

#include "bindings/c/guard.h"
#include "comm/node/heap.h"

using weft::Guarded;

weft_result_t weft_mem_alloc(size_t bytes, uint32_t flags, void** memory) {
  return Guarded([&]() -> absl::Status {
    if (memory == nullptr) return weft::InvalidArgument("weft_mem_alloc", "memory is NULL");
    if (flags != 0) {
      return weft::InvalidArgument("weft_mem_alloc", weft::StrCat("flags is ", flags, ", not 0"));
    }
    if (bytes == 0) return weft::InvalidArgument("weft_mem_alloc", "bytes is 0, not 1 or more");
    const absl::StatusOr<void*> block = weft::ProcessHeap().Allocate(bytes);
    if (!block.ok()) return weft::Annotate(block.status(), "weft_mem_alloc: ");
    *memory = *block;
    return absl::OkStatus();
  });
}

weft_result_t weft_mem_free(void* memory) {
  return Guarded([&]() -> absl::Status {
    if (memory == nullptr) return absl::OkStatus();
    return weft::Annotate(weft::ProcessHeap().Free(memory), "weft_mem_free: ");
  });
}
