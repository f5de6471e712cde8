#include "comm/device/memory/pinned_memory.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <numeric>
#include <utility>

#include "base/log.h"
#include "base/pages.h"
#include "base/status.h"
#include "base/text.h"
#include "comm/device/memory/address.h"
#include "comm/device/memory/device_heap.h"
#include "comm/node/heap.h"

namespace weft {
namespace {

// A device whose context is there already, if there is one: a context takes hundreds of megabytes of its device.
absl::StatusOr<const Device*> DeviceToAsk() {
  absl::StatusOr<const Device*> current = OpenDevice(kCurrentDevice);
  if (current.ok() || ResultOf(current.status()) != WEFT_INVALID_ARGUMENT) return current;
  WEFT_ASSIGN_OR_RETURN(const int32_t count, CountDevices());
  for (int32_t ordinal = 0; ordinal < count; ++ordinal) {
    if (const Device* const open = FindOpenDevice(ordinal)) return open;
  }
  return OpenDevice(0);
}

}  // namespace

absl::StatusOr<void*> PinnedMemory::Allocate(size_t bytes) {
  GiveBackIfMuch();
  WEFT_ASSIGN_OR_RETURN(const Device* const device, DeviceToAsk());
  absl::StatusOr<void*> block = AllocateThrough(*device, bytes);
  if (block.ok() || ResultOf(block.status()) != WEFT_OUT_OF_MEMORY) return block;
  GiveBack();
  return AllocateThrough(*device, bytes);
}

absl::StatusOr<void*> PinnedMemory::AllocateThrough(const Device& device, size_t bytes) {
  bool of_heap = false;
  {
    MutexLock lock(mutex_);
    of_heap = private_ != true;
  }
  if (of_heap) {
    absl::StatusOr<void*> block = AllocateOfHeap(device, bytes);
    {
      MutexLock lock(mutex_);
      if (block.ok() && !private_.has_value()) private_ = false;
      if (block.ok() || private_ == false || !IsRefusal(block.status())) return block;
    }
    if (!DecidePrivate(block.status())) return block;
  }
  return AllocateOfCuda(device, bytes);
}

absl::StatusOr<void*> PinnedMemory::AllocateOfHeap(const Device& device, size_t bytes) {
  Heap& heap = ProcessHeap();
  WEFT_ASSIGN_OR_RETURN(void* const block, heap.Allocate(bytes));
  const size_t block_bytes = heap.BlockBytes(block);
  heap.Pin(block);
  absl::Status pinned = [&]() -> absl::Status {
    WEFT_ASSIGN_OR_RETURN(const ContextScope scope, ContextScope::Enter(device));
    return device.Check(
        device.driver->MemHostRegister(block, block_bytes,
                                       cuda::kHostRegisterPortable | cuda::kHostRegisterDeviceMap),
        "pinning memory of the shared heap: cuMemHostRegister of ", FormatBytes(block_bytes));
  }();
  if (!pinned.ok()) {
    heap.Unpin(block);
    (void)heap.Free(block);
    return pinned;
  }
  Add(block, {.device = &device, .bytes = block_bytes, .of_heap = true});
  return block;
}

absl::StatusOr<void*> PinnedMemory::AllocateOfCuda(const Device& device, size_t bytes) {
  if (bytes > PTRDIFF_MAX) {
    return MakeError(WEFT_OUT_OF_MEMORY, StrCat("allocating ", bytes,
                                                " bytes of pinned memory: more than an address "
                                                "space has"));
  }
  const size_t block_bytes = (bytes + PageBytes() - 1) / PageBytes() * PageBytes();
  void* block = nullptr;
  WEFT_ASSIGN_OR_RETURN(const ContextScope scope, ContextScope::Enter(device));
  WEFT_RETURN_IF_ERROR(
      device.Check(device.driver->MemHostAlloc(
                       &block, block_bytes, cuda::kHostAllocPortable | cuda::kHostAllocDeviceMap),
                   "allocating pinned memory: cuMemHostAlloc of ", FormatBytes(block_bytes)));
  std::memset(block, 0, block_bytes);
  Add(block, {.device = &device, .bytes = block_bytes, .of_heap = false});
  return block;
}

void PinnedMemory::Add(const void* begin, Block block) {
  MutexLock lock(mutex_);
  block.number = ++count_;
  live_bytes_ += block.bytes;
  blocks_[DeviceAddress(begin)] = std::move(block);
}

// The first refusal is that of all; false if the heap's pages were taken first.
bool PinnedMemory::DecidePrivate(const absl::Status& refused) {
  {
    MutexLock lock(mutex_);
    if (private_.has_value()) return *private_;
    private_ = true;
  }
  LogInfo("pinned memory comes from cuMemHostAlloc, and peers do not reach it: ",
          FromAbsl(refused.message()));
  return true;
}

PinnedMemory::Blocks::const_iterator PinnedMemory::BlockOf(const void* pointer) const {
  const cuda::DevicePointer address = DeviceAddress(pointer);
  auto block = blocks_.upper_bound(address);
  if (block == blocks_.begin()) return blocks_.end();
  --block;
  return address - block->first < block->second.bytes ? block : blocks_.end();
}

std::optional<PinnedMemory::Place> PinnedMemory::PlaceOf(const void* pointer) const {
  Place place;
  {
    MutexLock lock(mutex_);
    const auto block = BlockOf(pointer);
    if (block == blocks_.end()) return std::nullopt;
    place = {.begin = PointerTo(block->first),
             .bytes = block->second.bytes,
             .owners = block->second.owners,
             .device = block->second.device,
             .of_heap = block->second.of_heap};
  }
  if (!place.of_heap) return place;
  const std::optional<Heap::Place> of_heap = ProcessHeap().PlaceOf(pointer);
  if (!of_heap.has_value()) return std::nullopt;  // freed meanwhile
  place.owners = of_heap->owners;
  return place;
}

absl::StatusOr<void*> PinnedMemory::AddOwner(const void* pointer) {
  {
    MutexLock lock(mutex_);
    const auto block = BlockOf(pointer);
    if (block == blocks_.end()) return nullptr;
    if (!block->second.of_heap) {
      ++blocks_[block->first].owners;
      return PointerTo(block->first);
    }
  }
  return ProcessHeap().AddOwner(pointer);
}

absl::StatusOr<bool> PinnedMemory::AddUse(const void* pointer, DeviceEvent event) {
  MutexLock lock(mutex_);
  const auto block = BlockOf(pointer);
  if (block == blocks_.end()) return false;
  std::vector<DeviceEvent>& uses = blocks_[block->first].uses;
  (void)HavePassed(&uses);
  uses.push_back(std::move(event));
  return true;
}

absl::StatusOr<bool> PinnedMemory::Free(void* pointer, std::optional<DeviceEvent> after) {
  bool of_heap = false;
  uint64_t number = 0;
  {
    MutexLock lock(mutex_);
    const auto block = blocks_.find(DeviceAddress(pointer));
    if (block == blocks_.end()) return false;
    of_heap = block->second.of_heap;
    number = block->second.number;
    if (after.has_value()) block->second.uses.push_back(*std::move(after));
    if (!of_heap && --block->second.owners > 0) return true;
  }
  if (of_heap) {
    WEFT_RETURN_IF_ERROR(ProcessHeap().Free(pointer));
    if (ProcessHeap().PlaceOf(pointer).has_value()) return true;  // others own it
  }
  {
    // Of threads that have seen it go the first one takes it; another block may be there when the others come.
    MutexLock lock(mutex_);
    const auto block = blocks_.find(DeviceAddress(pointer));
    if (block == blocks_.end() || block->second.number != number) return true;
    live_bytes_ -= block->second.bytes;
    leaving_.push_back({.begin = pointer, .block = std::move(block->second)});
    blocks_.erase(block);
  }
  GiveBack();
  return true;
}

// CUDA first, then the heap.
bool PinnedMemory::LetGo(const Leaving& leaving) {
  const Device& device = *leaving.block.device;
  const absl::StatusOr<ContextScope> scope = ContextScope::Enter(device);
  if (!scope.ok()) return false;
  const auto check = [&](cuda::Result result, const char* call) {
    const absl::Status done = device.Check(result, call, " of ", FormatBytes(leaving.block.bytes));
    if (!done.ok()) LogWarn("giving pinned memory back to CUDA: ", FromAbsl(done.message()));
    return done.ok();
  };
  if (!leaving.block.of_heap) {
    (void)check(device.driver->MemFreeHost(leaving.begin), "cuMemFreeHost");
    return true;
  }
  bool gone = check(device.driver->MemHostUnregister(leaving.begin), "cuMemHostUnregister");
  // A driver that returns a failure of earlier work has done it all the same. Pages that it may still have are kept for good.
  if (!gone) {
    uint32_t type = 0;
    gone = device.driver->PointerGetAttribute(&type, cuda::PointerAttribute::kMemoryType,
                                              DeviceAddress(leaving.begin)) == cuda::kInvalidValue;
  }
  if (gone) ProcessHeap().Unpin(leaving.begin);
  return true;
}

void PinnedMemory::GiveBackIfMuch() {
  {
    MutexLock lock(mutex_);
    const size_t bytes = std::accumulate(
        leaving_.begin(), leaving_.end(), size_t{0},
        [](size_t sum, const Leaving& leaving) { return sum + leaving.block.bytes; });
    if (bytes <= live_bytes_ / 4) return;
  }
  GiveBack();
}

void PinnedMemory::GiveBack() {
  std::vector<Leaving> ready;
  {
    MutexLock lock(mutex_);
    const auto first = std::partition(leaving_.begin(), leaving_.end(), [](Leaving& leaving) {
      return !HavePassed(&leaving.block.uses);
    });
    std::move(first, leaving_.end(), std::back_inserter(ready));
    leaving_.erase(first, leaving_.end());
  }
  for (Leaving& leaving : ready) {
    if (LetGo(leaving)) continue;
    MutexLock lock(mutex_);
    leaving_.push_back(std::move(leaving));
  }
}

}  // namespace weft
