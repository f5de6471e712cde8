#include "weft/mem.h"

#include "base/allocator.h"
#include "bindings/c/guard.h"
#include "bindings/c/handles.h"
#include "bindings/c/struct_size.h"
#include "comm/node/heap.h"
#include "comm/node/heap_copy.h"

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

weft_result_t weft_mem_alloc_copy(const void* from, size_t bytes, void** view) {
  return Guarded([&]() -> absl::Status {
    constexpr const char* kCall = "weft_mem_alloc_copy";
    if (from == nullptr) return weft::InvalidArgument(kCall, "from is NULL");
    if (view == nullptr) return weft::InvalidArgument(kCall, "view is NULL");
    if (bytes == 0) return weft::InvalidArgument(kCall, "bytes is 0, not 1 or more");
    const absl::StatusOr<void*> block = weft::AllocateCopy(from, bytes);
    if (!block.ok()) return weft::Annotate(block.status(), "weft_mem_alloc_copy: ");
    *view = *block;
    return absl::OkStatus();
  });
}

weft_result_t weft_mem_alloc_shared(weft_group_t group, size_t bytes, void** memory) {
  return Guarded([&]() -> absl::Status {
    constexpr const char* kCall = "weft_mem_alloc_shared";
    WEFT_RETURN_IF_ERROR(weft::CheckGroup(kCall, group));
    const auto of = group->group;
    if (memory == nullptr) return weft::InvalidArgument(kCall, "memory is NULL");
    if (bytes == 0) return weft::InvalidArgument(kCall, "bytes is 0, not 1 or more");
    const absl::StatusOr<void*> block = of->AllocateShared(bytes);
    if (!block.ok()) return weft::Annotate(block.status(), "weft_mem_alloc_shared: ");
    *memory = *block;
    return absl::OkStatus();
  });
}

weft_result_t weft_mem_free_shared(weft_group_t group, void* memory) {
  return Guarded([&]() -> absl::Status {
    constexpr const char* kCall = "weft_mem_free_shared";
    WEFT_RETURN_IF_ERROR(weft::CheckGroup(kCall, group));
    const auto of = group->group;
    if (memory == nullptr) return weft::InvalidArgument(kCall, "memory is NULL");
    return weft::Annotate(of->FreeShared(memory), "weft_mem_free_shared: ");
  });
}

weft_result_t weft_mem_register(void* memory, size_t bytes, uint32_t flags) {
  return Guarded([&]() -> absl::Status {
    constexpr const char* kCall = "weft_mem_register";
    if (memory == nullptr) return weft::InvalidArgument(kCall, "memory is NULL");
    if (flags != 0)
      return weft::InvalidArgument(kCall, weft::StrCat("flags is ", flags, ", not 0"));
    if (bytes == 0) return weft::InvalidArgument(kCall, "bytes is 0, not a page or more");
    return weft::Annotate(weft::ProcessHeap().Register(memory, bytes), "weft_mem_register: ");
  });
}

weft_result_t weft_mem_deregister(void* memory) {
  return Guarded([&]() -> absl::Status {
    constexpr const char* kCall = "weft_mem_deregister";
    if (memory == nullptr) return weft::InvalidArgument(kCall, "memory is NULL");
    return weft::Annotate(weft::ProcessHeap().Deregister(memory), "weft_mem_deregister: ");
  });
}

weft_result_t weft_set_allocator(const weft_allocator_t* allocator) {
  return Guarded([&]() -> absl::Status {
    constexpr const char* kCall = "weft_set_allocator";
    weft_allocator_t full{};
    if (allocator != nullptr) {
      WEFT_RETURN_IF_ERROR(weft::ReadConfig(kCall, allocator, &full));
      if (full.allocate == nullptr || full.release == nullptr) {
        return weft::InvalidArgument(kCall, "allocate or release is NULL");
      }
    }
    return weft::Annotate(weft::SetAllocator(allocator == nullptr ? nullptr : &full),
                          "weft_set_allocator: ");
  });
}

weft_result_t weft_mem_free(void* memory) {
  return Guarded([&]() -> absl::Status {
    if (memory == nullptr) return absl::OkStatus();
    return weft::Annotate(weft::ProcessHeap().Free(memory), "weft_mem_free: ");
  });
}
