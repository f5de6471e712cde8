// All memory of this process that has to do with devices: weft's on each of them, host memory that they reach, and the program's
// own that it has registered.
//
//   WEFT_ASSIGN_OR_RETURN(DeviceMemory* const memory, OpenDeviceMemory());
//   WEFT_ASSIGN_OR_RETURN(void* const block, memory->Allocate(ordinal, bytes, stream));
//   ...
//   WEFT_ASSIGN_OR_RETURN(DeviceMemory* const memory, FindDeviceMemory());    // nullptr where no device was wanted yet
//   if (memory != nullptr) place = memory->PlaceOf(pointer);
//
// Functions that take any pointer say "not mine" where it is memory of no device.
//
// Thread-safety: all members, any thread. Lifetime: for the process's life. A forked child has none of it: FORKED.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "comm/device/driver/device.h"
#include "comm/device/driver/stream.h"
#include "comm/device/memory/device_heap.h"
#include "comm/device/memory/pinned_memory.h"
#include "comm/device/memory/registered_ranges.h"

namespace weft {

class DeviceMemory {
 public:
  // A block on a device, which is opened; DeviceHeap has the rules.
  absl::StatusOr<void*> Allocate(int32_t ordinal, size_t bytes, cuda::Stream stream);
  // A block on the device where `from` is, with what the legacy stream finds there. nullptr: `from` is not a device's.
  absl::StatusOr<void*> AllocateCopy(const void* from, size_t bytes);

  // Host memory that devices reach (PinnedMemory).
  absl::StatusOr<void*> AllocatePinned(size_t bytes) { return pinned_.Allocate(bytes); }

  struct Place {
    void* begin = nullptr;
    size_t bytes = 0;
    int owners = 0;                      // 0 of a registration
    std::optional<int32_t> device = {};  // nothing: the host's
    bool registered = false;
    bool private_to_process = false;  // pinned memory that peers do not reach
  };

  // Nothing of memory that is not mine. Opens nothing.
  std::optional<Place> PlaceOf(const void* pointer) const;

  // One more Free() for the block that holds `pointer`; returns where it begins. nullptr: not mine.
  absl::StatusOr<void*> AddOwner(const void* pointer);
  // False: not mine.
  absl::StatusOr<bool> AddUse(const void* pointer, DeviceEvent event);
  absl::StatusOr<bool> Free(void* block);
  // As if freed when what is in `stream` now has ended; nullptr is the legacy stream of the block's device, or for pinned memory of
  // the thread's.
  absl::StatusOr<bool> FreeBehind(void* block, cuda::Stream stream);
  // As FreeBehind the legacy stream of the block's device, of pinned memory that of the device which has pinned it: for who
  // cannot say which streams use the block.
  absl::StatusOr<bool> FreeDropped(void* block);

  // Memory of a device that is the program's. False if it is the host's; UNSUPPORTED if CUDA has pinned a page of it there.
  absl::StatusOr<bool> Register(void* memory, size_t bytes);
  bool Deregister(void* memory);

 private:
  absl::StatusOr<DeviceHeap*> HeapOf(int32_t ordinal);
  DeviceHeap* FindHeap(const void* pointer) const;

  mutable Mutex mutex_;
  std::map<int32_t, std::unique_ptr<DeviceHeap>> heaps_ WEFT_GUARDED_BY(mutex_);
  PinnedMemory pinned_;
  RegisteredRanges ranges_;
};

// This process's, with the driver open. The errors of OpenDriver().
absl::StatusOr<DeviceMemory*> OpenDeviceMemory();

// The same for what a pointer to any memory is, where the driver's library is in the process already, because of weft or of who
// else uses CUDA here. Else nullptr; so too where no driver works, as in a forked child, and the host reads the pointer.
absl::StatusOr<DeviceMemory*> OpenDeviceMemoryFor(const void* pointer);

// nullptr if neither was called yet with success: then no pointer is a device's to weft.
absl::StatusOr<DeviceMemory*> FindDeviceMemory();

}  // namespace weft
