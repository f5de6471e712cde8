#include "comm/device/memory/device_memory.h"

#include <atomic>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "comm/device/memory/address.h"
#include "comm/device/memory/driver_range.h"
#include "comm/group/fork.h"
#include "fmt/format.h"

namespace weft {
namespace {

// The event that passes when what is in the stream now has ended.
absl::StatusOr<DeviceEvent> EventBehind(const Device& device, cuda::Stream stream) {
  WEFT_RETURN_IF_ERROR(CheckStream(device, stream));
  WEFT_ASSIGN_OR_RETURN(DeviceEvent event, DeviceEvent::Create(device));
  WEFT_RETURN_IF_ERROR(event.Record(stream));
  return event;
}

}  // namespace

absl::StatusOr<DeviceHeap*> DeviceMemory::HeapOf(int32_t ordinal) {
  WEFT_ASSIGN_OR_RETURN(const Device* const device, OpenDevice(ordinal));
  MutexLock lock(mutex_);
  std::unique_ptr<DeviceHeap>& heap = heaps_[device->facts.ordinal];
  if (heap == nullptr) heap = std::make_unique<DeviceHeap>(*device);
  return heap.get();
}

// Of one address space: no two devices have the same address.
DeviceHeap* DeviceMemory::FindHeap(const void* pointer) const {
  MutexLock lock(mutex_);
  for (const auto& [ordinal, heap] : heaps_) {
    if (heap->PlaceOf(pointer).has_value()) return heap.get();
  }
  return nullptr;
}

absl::StatusOr<void*> DeviceMemory::Allocate(int32_t ordinal, size_t bytes, cuda::Stream stream) {
  pinned_.GiveBackIfMuch();
  WEFT_ASSIGN_OR_RETURN(DeviceHeap* const heap, HeapOf(ordinal));
  return heap->Allocate(bytes, stream);
}

absl::StatusOr<void*> DeviceMemory::AllocateCopy(const void* from, size_t bytes) {
  WEFT_ASSIGN_OR_RETURN(const Driver* const driver, OpenDriver());
  WEFT_ASSIGN_OR_RETURN(const std::optional<DriverRange> range,
                        AskDriver(*driver, DeviceAddress(from)));
  if (!range.has_value() || !range->on_device || range->managed) return nullptr;
  WEFT_ASSIGN_OR_RETURN(DeviceHeap* const heap, HeapOf(range->device));
  return heap->AllocateCopy(from, bytes, nullptr);
}

std::optional<DeviceMemory::Place> DeviceMemory::PlaceOf(const void* pointer) const {
  if (const DeviceHeap* const heap = FindHeap(pointer)) {
    if (const auto place = heap->PlaceOf(pointer)) {
      return Place{.begin = place->begin,
                   .bytes = place->bytes,
                   .owners = place->owners,
                   .device = heap->device().facts.ordinal};
    }
  }
  if (const auto place = pinned_.PlaceOf(pointer)) {
    return Place{.begin = place->begin,
                 .bytes = place->bytes,
                 .owners = place->owners,
                 .private_to_process = !place->of_heap};
  }
  if (const auto range = ranges_.RangeOf(DeviceAddress(pointer))) {
    return Place{.begin = PointerTo(range->begin),
                 .bytes = range->bytes,
                 .device = range->device,
                 .registered = true};
  }
  return std::nullopt;
}

absl::StatusOr<void*> DeviceMemory::AddOwner(const void* pointer) {
  if (DeviceHeap* const heap = FindHeap(pointer)) return heap->AddOwner(pointer);
  return pinned_.AddOwner(pointer);
}

absl::StatusOr<bool> DeviceMemory::AddUse(const void* pointer, DeviceEvent event) {
  DeviceHeap* const heap = FindHeap(pointer);
  if (heap == nullptr) return pinned_.AddUse(pointer, std::move(event));
  WEFT_RETURN_IF_ERROR(heap->AddUse(pointer, std::move(event)));
  return true;
}

absl::StatusOr<bool> DeviceMemory::Free(void* block) {
  DeviceHeap* const heap = FindHeap(block);
  if (heap == nullptr) return pinned_.Free(block, std::nullopt);
  WEFT_RETURN_IF_ERROR(heap->Free(block, std::nullopt));
  return true;
}

absl::StatusOr<bool> DeviceMemory::FreeBehind(void* block, cuda::Stream stream) {
  if (DeviceHeap* const heap = FindHeap(block)) {
    WEFT_ASSIGN_OR_RETURN(DeviceEvent event, EventBehind(heap->device(), stream));
    WEFT_RETURN_IF_ERROR(heap->Free(block, std::move(event)));
    return true;
  }
  if (!pinned_.PlaceOf(block).has_value()) return false;
  WEFT_ASSIGN_OR_RETURN(const Device* const device, OpenDeviceOf(stream));
  WEFT_ASSIGN_OR_RETURN(DeviceEvent event, EventBehind(*device, stream));
  return pinned_.Free(block, std::move(event));
}

absl::StatusOr<bool> DeviceMemory::FreeDropped(void* block) {
  const std::optional<PinnedMemory::Place> place = pinned_.PlaceOf(block);
  if (!place.has_value()) return FreeBehind(block, nullptr);
  WEFT_ASSIGN_OR_RETURN(DeviceEvent event, EventBehind(*place->device, nullptr));
  return pinned_.Free(block, std::move(event));
}

absl::StatusOr<bool> DeviceMemory::Register(void* memory, size_t bytes) {
  WEFT_ASSIGN_OR_RETURN(const Driver* const driver, OpenDriver());
  WEFT_ASSIGN_OR_RETURN(const std::optional<DriverRange> range,
                        AskDriver(*driver, DeviceAddress(memory)));
  const auto registering = [&](weft_result_t result, std::string_view why) {
    return MakeError(result, fmt::format("registering {} bytes at {}: {}", bytes, memory, why));
  };
  constexpr const char* kPinned =
      "CUDA has pinned it (cudaHostRegister, cudaMallocHost), so its pages cannot move; allocate "
      "it "
      "with weft_mem_alloc_on and WEFT_MEM_PINNED";
  if (!range.has_value()) {
    if (bytes > UINT64_MAX - DeviceAddress(memory)) return false;  // the heap says so
    const std::optional<uint64_t> pinned = FindPinned(*driver, DeviceAddress(memory), bytes);
    if (!pinned.has_value()) return false;
    return registering(WEFT_UNSUPPORTED,
                       fmt::format("byte {} of it: {}", *pinned - DeviceAddress(memory), kPinned));
  }
  if (range->managed) {
    return registering(WEFT_UNSUPPORTED,
                       "it is managed memory (cudaMallocManaged), which moves between host and "
                       "devices");
  }
  if (FindHeap(memory) != nullptr || pinned_.PlaceOf(memory).has_value()) {
    return registering(WEFT_INVALID_ARGUMENT,
                       "it is memory of weft's own, which needs no registration");
  }
  if (!range->on_device) return registering(WEFT_UNSUPPORTED, kPinned);
  WEFT_ASSIGN_OR_RETURN(const Device* const device, OpenDevice(range->device));
  WEFT_RETURN_IF_ERROR(ranges_.Register(*device->driver, *range, DeviceAddress(memory), bytes));
  return true;
}

bool DeviceMemory::Deregister(void* memory) {
  return ranges_.Deregister(DeviceAddress(memory));
}

namespace {

struct OfProcess {
  Origin origin;
  DeviceMemory memory;
};

// Never destroyed: tensors of other frameworks may outlive static destructors.
constinit std::atomic<OfProcess*> of_process{nullptr};

}  // namespace

absl::StatusOr<DeviceMemory*> FindDeviceMemory() {
  OfProcess* const found = of_process.load(std::memory_order_acquire);
  if (found == nullptr) return nullptr;
  if (found->origin.here()) return &found->memory;
  return MakeError(WEFT_FORKED,
                   "memory of devices belongs to the parent of this forked process, and CUDA does "
                   "not work in forked children; start processes that use devices by exec (spawn)");
}

absl::StatusOr<DeviceMemory*> OpenDeviceMemory() {
  WEFT_ASSIGN_OR_RETURN(DeviceMemory* const found, FindDeviceMemory());
  if (found != nullptr) return found;
  WEFT_RETURN_IF_ERROR(OpenDriver().status());
  auto* const made = new OfProcess;
  OfProcess* known = nullptr;
  if (of_process.compare_exchange_strong(known, made, std::memory_order_acq_rel)) {
    return &made->memory;
  }
  delete made;  // another thread was quicker
  return &known->memory;
}

absl::StatusOr<DeviceMemory*> OpenDeviceMemoryFor(const void* pointer) {
  absl::StatusOr<DeviceMemory*> opened = FindDeviceMemory();
  if (opened.ok() && (*opened != nullptr || !IsDriverLoaded())) return opened;
  if (opened.ok()) opened = OpenDeviceMemory();
  if (opened.ok()) return opened;
  if (ResultOf(opened.status()) == WEFT_UNSUPPORTED) return nullptr;
  // Of a forked child's own memory its parent's driver would know nothing.
  if (ResultOf(opened.status()) == WEFT_FORKED && HostReads(DeviceAddress(pointer))) return nullptr;
  return opened;
}

}  // namespace weft
