#include "weft/mem.h"

#include <optional>

#include "base/allocator.h"
#include "bindings/c/guard.h"
#include "bindings/c/handles.h"
#include "bindings/c/kept_block.h"
#include "bindings/c/struct_size.h"
#include "comm/device/memory/device_memory.h"
#include "comm/node/heap.h"
#include "comm/node/heap_copy.h"
#include "comm/node/shared_blocks.h"
#include "fmt/format.h"

using weft::Guarded;

namespace weft {
namespace {

absl::Status CheckSize(const char* call, size_t bytes, void** memory) {
  if (memory == nullptr) return InvalidArgument(call, "memory is NULL");
  return bytes > 0 ? absl::OkStatus() : InvalidArgument(call, "bytes is 0, not 1 or more");
}

absl::Status CheckFlags(const char* call, uint32_t flags, uint32_t known) {
  if ((flags & ~known) == 0) return absl::OkStatus();
  return InvalidArgument(
      call, StrCat("flags is ", flags, ", not 0", known != 0 ? StrCat(" or ", known) : ""));
}

// Sets *memory if there is a block.
absl::Status Answer(const char* call, const absl::StatusOr<void*>& block, void** memory) {
  if (!block.ok()) return Annotate(block.status(), StrCat(call, ": "));
  *memory = *block;
  return absl::OkStatus();
}

absl::Status AllocateOnHost(const char* call, const weft_mem_config_t& config, void** memory) {
  if (config.device != 0) {
    return CallError(
        WEFT_UNSUPPORTED, call,
        StrCat("the host's memory is asked of device ", config.device, "; the host has 0 alone"));
  }
  if (config.stream != nullptr) {
    return CallError(WEFT_UNSUPPORTED, call,
                     "a stream was passed, but host memory follows none; pass NULL");
  }
  WEFT_RETURN_IF_ERROR(CheckFlags(call, config.flags, WEFT_MEM_PINNED));
  WEFT_RETURN_IF_ERROR(CheckSize(call, config.bytes, memory));
  if ((config.flags & WEFT_MEM_PINNED) == 0) {
    return Answer(call, ProcessHeap().Allocate(config.bytes), memory);
  }
  const absl::StatusOr<DeviceMemory*> devices = OpenDeviceMemory();
  if (!devices.ok()) return Annotate(devices.status(), StrCat(call, ": "));
  return Answer(call, (*devices)->AllocatePinned(config.bytes), memory);
}

absl::Status AllocateOnDevice(const char* call, const weft_mem_config_t& config, void** memory) {
  WEFT_RETURN_IF_ERROR(CheckFlags(call, config.flags, 0));
  WEFT_RETURN_IF_ERROR(CheckSize(call, config.bytes, memory));
  const absl::StatusOr<DeviceMemory*> devices = OpenDeviceMemory();
  if (!devices.ok()) return Annotate(devices.status(), StrCat(call, ": "));
  return Answer(
      call,
      (*devices)->Allocate(config.device, config.bytes, static_cast<cuda::Stream>(config.stream)),
      memory);
}

weft_mem_info_t InfoOf(const DeviceMemory::Place& place) {
  weft_mem_info_t info = {};
  info.kind = place.registered           ? WEFT_MEM_REGISTERED
              : place.private_to_process ? WEFT_MEM_PRIVATE
                                         : WEFT_MEM_SYMMETRIC;
  info.device_kind = place.device.has_value() ? WEFT_DEVICE_CUDA : WEFT_DEVICE_HOST;
  info.device = place.device.value_or(0);
  info.references = place.owners;
  info.base = place.begin;
  info.bytes = place.bytes;
  info.flags = place.device.has_value() ? 0 : WEFT_MEM_PINNED;
  return info;
}

// nullptr where no memory of devices is there, and of what the heap of a forked child has itself: FORKED is for the rest, which may
// be of the parent's devices.
absl::StatusOr<DeviceMemory*> DevicesFor(const void* pointer) {
  absl::StatusOr<DeviceMemory*> devices = FindDeviceMemory();
  if (!devices.ok() && ProcessHeap().PlaceOf(pointer).has_value()) return nullptr;
  return devices;
}

}  // namespace

absl::StatusOr<void*> KeepBlock(const char* call, const void* pointer) {
  // Blocks of other ranks' heaps are not in this one.
  if (!ProcessSharedBlocks().BlockOf(pointer).empty()) {
    return CallError(WEFT_UNSUPPORTED, call,
                     "the memory is shared with other ranks, which free it together");
  }
  const absl::StatusOr<void*> begin = [&]() -> absl::StatusOr<void*> {
    WEFT_ASSIGN_OR_RETURN(DeviceMemory* const devices, DevicesFor(pointer));
    if (devices != nullptr) {
      WEFT_ASSIGN_OR_RETURN(void* const kept, devices->AddOwner(pointer));
      if (kept != nullptr) return kept;
    }
    return ProcessHeap().AddOwner(pointer);
  }();
  if (!begin.ok()) return Annotate(begin.status(), StrCat(call, ": "));
  return *begin;
}

absl::StatusOr<weft_mem_info_t> MemoryInfoOf(const void* pointer) {
  WEFT_RETURN_IF_ERROR(ProcessHeap().CheckFork());
  weft_mem_info_t info = {};
  if (const auto shared = ProcessSharedBlocks().BlockOf(pointer); !shared.empty()) {
    info.kind = WEFT_MEM_SHARED;
    info.base = shared.data();
    info.bytes = shared.size();
    return info;
  }
  WEFT_ASSIGN_OR_RETURN(const DeviceMemory* const devices, DevicesFor(pointer));
  if (devices != nullptr) {
    if (const auto place = devices->PlaceOf(pointer)) return InfoOf(*place);
  }
  if (const auto place = ProcessHeap().PlaceOf(pointer)) {
    info.kind = place->registered ? WEFT_MEM_REGISTERED : WEFT_MEM_SYMMETRIC;
    info.base = place->begin;
    info.bytes = place->bytes;
    info.references = place->owners;
  }
  return info;
}

absl::Status FreeBlock(void* block) {
  WEFT_ASSIGN_OR_RETURN(DeviceMemory* const devices, DevicesFor(block));
  if (devices != nullptr) {
    WEFT_ASSIGN_OR_RETURN(const bool freed, devices->Free(block));
    if (freed) return absl::OkStatus();
  }
  return ProcessHeap().Free(block);
}

absl::Status FreeDroppedBlock(void* block) {
  WEFT_ASSIGN_OR_RETURN(DeviceMemory* const devices, DevicesFor(block));
  if (devices != nullptr) {
    WEFT_ASSIGN_OR_RETURN(const bool freed, devices->FreeDropped(block));
    if (freed) return absl::OkStatus();
  }
  return ProcessHeap().Free(block);
}

absl::Status FreeBlockBehind(void* block, void* stream) {
  WEFT_ASSIGN_OR_RETURN(DeviceMemory* const devices, DevicesFor(block));
  if (devices != nullptr) {
    WEFT_ASSIGN_OR_RETURN(const bool freed,
                          devices->FreeBehind(block, static_cast<cuda::Stream>(stream)));
    if (freed) return absl::OkStatus();
  }
  WEFT_RETURN_IF_ERROR(ProcessHeap().CheckFork());
  const std::optional<Heap::Place> place = ProcessHeap().PlaceOf(block);
  if (place.has_value() && place->begin == block && !place->registered) {
    return MakeError(WEFT_UNSUPPORTED,
                     "a stream was passed, but host memory that is not pinned follows none; wait "
                     "for the stream and use weft_mem_free");
  }
  return MakeError(WEFT_INVALID_ARGUMENT,
                   fmt::format("freeing {}: it is not a block of a device, or pinned", block));
}

}  // namespace weft

weft_result_t weft_mem_alloc(size_t bytes, uint32_t flags, void** memory) {
  return Guarded([&]() -> absl::Status {
    constexpr const char* kCall = "weft_mem_alloc";
    WEFT_RETURN_IF_ERROR(weft::CheckFlags(kCall, flags, 0));
    return weft::AllocateOnHost(kCall, {.struct_size = sizeof(weft_mem_config_t), .bytes = bytes},
                                memory);
  });
}

weft_result_t weft_mem_alloc_on(const weft_mem_config_t* config, void** memory) {
  return Guarded([&]() -> absl::Status {
    constexpr const char* kCall = "weft_mem_alloc_on";
    if (config == nullptr) return weft::InvalidArgument(kCall, "config is NULL");
    weft_mem_config_t full{};
    WEFT_RETURN_IF_ERROR(weft::ReadConfig(kCall, config, &full));
    switch (full.device_kind) {
      case WEFT_DEVICE_HOST:
        return weft::AllocateOnHost(kCall, full, memory);
      case WEFT_DEVICE_CUDA:
        return weft::AllocateOnDevice(kCall, full, memory);
    }
    return weft::InvalidArgument(kCall,
                                 weft::StrCat("device_kind is ", static_cast<int>(full.device_kind),
                                              "; this weft has 0, the host, and 1, CUDA"));
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
    const absl::StatusOr<weft_mem_info_t> made = weft::MemoryInfoOf(pointer);
    if (!made.ok()) return weft::Annotate(made.status(), "weft_mem_query: ");
    weft::WriteAnswer(*made, info);
    return absl::OkStatus();
  });
}

weft_result_t weft_mem_alloc_copy(const void* from, size_t bytes, void** view) {
  return Guarded([&]() -> absl::Status {
    constexpr const char* kCall = "weft_mem_alloc_copy";
    if (from == nullptr) return weft::InvalidArgument(kCall, "from is NULL");
    if (view == nullptr) return weft::InvalidArgument(kCall, "view is NULL");
    if (bytes == 0) return weft::InvalidArgument(kCall, "bytes is 0, not 1 or more");
    const absl::StatusOr<void*> block = [&]() -> absl::StatusOr<void*> {
      WEFT_ASSIGN_OR_RETURN(weft::DeviceMemory* const devices, weft::OpenDeviceMemoryFor(from));
      if (devices != nullptr) {
        WEFT_ASSIGN_OR_RETURN(void* const copy, devices->AllocateCopy(from, bytes));
        if (copy != nullptr) return copy;
      }
      return weft::AllocateCopy(from, bytes);
    }();
    return weft::Answer(kCall, block, view);
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
    if (bytes == 0) return weft::InvalidArgument(kCall, "bytes is 0, not 1 or more");
    const absl::Status registered = [&]() -> absl::Status {
      WEFT_ASSIGN_OR_RETURN(weft::DeviceMemory* const devices, weft::OpenDeviceMemoryFor(memory));
      if (devices != nullptr) {
        WEFT_ASSIGN_OR_RETURN(const bool on_device, devices->Register(memory, bytes));
        if (on_device) return absl::OkStatus();
      }
      return weft::ProcessHeap().Register(memory, bytes);
    }();
    return weft::Annotate(registered, "weft_mem_register: ");
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
    const absl::StatusOr<weft::DeviceMemory*> devices = weft::DevicesFor(memory);
    if (!devices.ok()) return weft::Annotate(devices.status(), "weft_mem_deregister: ");
    if (*devices != nullptr && (*devices)->Deregister(memory)) return absl::OkStatus();
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
    return weft::Annotate(weft::FreeBlock(memory), "weft_mem_free: ");
  });
}

weft_result_t weft_mem_free_on(void* memory, void* stream) {
  return Guarded([&]() -> absl::Status {
    if (memory == nullptr) return absl::OkStatus();
    return weft::Annotate(weft::FreeBlockBehind(memory, stream), "weft_mem_free_on: ");
  });
}
