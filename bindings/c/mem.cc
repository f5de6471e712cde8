#include "weft/mem.h"

#include "base/allocator.h"
#include "bindings/c/guard.h"
#include "bindings/c/handles.h"
#include "bindings/c/kept_block.h"
#include "bindings/c/struct_size.h"
#include "comm/node/heap.h"
#include "comm/node/heap_copy.h"
#include "comm/node/shared_blocks.h"

using weft::Guarded;

namespace weft {
namespace {

absl::Status AllocateOnHost(const char* call, size_t bytes, uint32_t flags, void** memory) {
  if (memory == nullptr) return InvalidArgument(call, "memory is NULL");
  if (flags != 0) return InvalidArgument(call, StrCat("flags is ", flags, ", not 0"));
  if (bytes == 0) return InvalidArgument(call, "bytes is 0, not 1 or more");
  const absl::StatusOr<void*> block = ProcessHeap().Allocate(bytes);
  if (!block.ok()) return Annotate(block.status(), StrCat(call, ": "));
  *memory = *block;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<void*> KeepBlock(const char* call, const void* pointer) {
  // Blocks of other ranks' heaps are not in this one.
  if (!ProcessSharedBlocks().BlockOf(pointer).empty()) {
    return CallError(WEFT_UNSUPPORTED, call,
                     "the memory is shared with other ranks, which free it together");
  }
  const absl::StatusOr<void*> begin = ProcessHeap().AddOwner(pointer);
  if (!begin.ok()) return Annotate(begin.status(), StrCat(call, ": "));
  return *begin;
}

}  // namespace weft

weft_result_t weft_mem_alloc(size_t bytes, uint32_t flags, void** memory) {
  return Guarded([&] { return weft::AllocateOnHost("weft_mem_alloc", bytes, flags, memory); });
}

weft_result_t weft_mem_alloc_on(const weft_mem_config_t* config, void** memory) {
  return Guarded([&]() -> absl::Status {
    constexpr const char* kCall = "weft_mem_alloc_on";
    if (config == nullptr) return weft::InvalidArgument(kCall, "config is NULL");
    weft_mem_config_t full{};
    WEFT_RETURN_IF_ERROR(weft::ReadConfig(kCall, config, &full));
    if (full.device_kind != WEFT_DEVICE_HOST || full.device != 0) {
      return weft::CallError(
          WEFT_UNSUPPORTED, kCall,
          weft::StrCat("device_kind is ", static_cast<int>(full.device_kind), " and device ",
                       full.device, "; this weft has memory of the host, 0 and 0, only"));
    }
    if (full.stream != nullptr) {
      return weft::CallError(WEFT_UNSUPPORTED, kCall,
                             "a stream was passed, but host memory follows none; pass NULL");
    }
    return weft::AllocateOnHost(kCall, full.bytes, full.flags, memory);
  });
}

weft_result_t weft_mem_retain(const void* pointer, void** block) {
  return Guarded([&]() -> absl::Status {
    constexpr const char* kCall = "weft_mem_retain";
    if (pointer == nullptr) return weft::InvalidArgument(kCall, "pointer is NULL");
    WEFT_ASSIGN_OR_RETURN(void* const begin, weft::KeepBlock(kCall, pointer));
    if (block != nullptr) *block = begin;
    return absl::OkStatus();
  });
}

weft_result_t weft_mem_query(const void* pointer, weft_mem_info_t* info) {
  return Guarded([&]() -> absl::Status {
    constexpr const char* kCall = "weft_mem_query";
    if (pointer == nullptr) return weft::InvalidArgument(kCall, "pointer is NULL");
    if (info == nullptr) return weft::InvalidArgument(kCall, "info is NULL");
    WEFT_RETURN_IF_ERROR(weft::CheckAnswer(kCall, info));
    if (const absl::Status here = weft::ProcessHeap().CheckFork(); !here.ok()) {
      return weft::Annotate(here, "weft_mem_query: ");
    }
    weft_mem_info_t made = {};
    if (const auto shared = weft::ProcessSharedBlocks().BlockOf(pointer); !shared.empty()) {
      made.kind = WEFT_MEM_SHARED;
      made.base = shared.data();
      made.bytes = shared.size();
    } else if (const auto place = weft::ProcessHeap().PlaceOf(pointer)) {
      made.kind = place->registered ? WEFT_MEM_REGISTERED : WEFT_MEM_SYMMETRIC;
      made.base = place->begin;
      made.bytes = place->bytes;
      made.references = place->owners;
    }
    weft::WriteAnswer(made, info);
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
    const auto of = group->group.shared();
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
    const auto of = group->group.shared();
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

weft_result_t weft_mem_register_fd(void* memory, size_t bytes, int fd, uint64_t offset,
                                   uint32_t flags) {
  return Guarded([&]() -> absl::Status {
    constexpr const char* kCall = "weft_mem_register_fd";
    if (memory == nullptr) return weft::InvalidArgument(kCall, "memory is NULL");
    if (flags != 0)
      return weft::InvalidArgument(kCall, weft::StrCat("flags is ", flags, ", not 0"));
    if (bytes == 0) return weft::InvalidArgument(kCall, "bytes is 0, not 1 or more");
    return weft::Annotate(weft::ProcessHeap().RegisterFile(memory, bytes, fd, offset),
                          "weft_mem_register_fd: ");
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
