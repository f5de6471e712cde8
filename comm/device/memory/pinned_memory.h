// Host memory that devices reach: blocks of weft's heap whose pages CUDA keeps in place.
//
//   WEFT_ASSIGN_OR_RETURN(void* const block, pinned.Allocate(bytes));
//   ...
//   WEFT_ASSIGN_OR_RETURN(const bool mine, pinned.Free(block, std::nullopt));
//
// The pages of such a block must not be given back to the system while CUDA has them: devices would go on using pages that are
// nobody's, or somebody else's. So this class pins the block in the heap as well, and lets go of it when CUDA has: whoever
// frees the block last, and whatever still uses it.
//
// Where CUDA refuses to register pages of the heap, blocks come from CUDA, which is decided once and logged: peers do not
// reach these.
//
// Thread-safety: all members, any thread. No lock is held while the driver pins or lets go. Lifetime: for the process's life.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "comm/device/driver/device.h"
#include "comm/device/driver/stream.h"

namespace weft {

class PinnedMemory {
 public:
  // Zeroed, page aligned, for all devices. CUDA is asked through the calling thread's device, else one that is open, else
  // device 0.
  absl::StatusOr<void*> Allocate(size_t bytes);

  struct Place {
    void* begin = nullptr;
    size_t bytes = 0;
    int owners = 0;
    const Device* device = nullptr;  // through which CUDA has pinned it
    bool of_heap = false;            // else CUDA's, and no peer reaches it
  };

  // Nothing if no live block holds the pointer.
  std::optional<Place> PlaceOf(const void* pointer) const;

  // As those of DeviceHeap, but false or nullptr if no block of these is meant.
  absl::StatusOr<void*> AddOwner(const void* pointer);
  absl::StatusOr<bool> AddUse(const void* pointer, DeviceEvent event);
  absl::StatusOr<bool> Free(void* block, std::optional<DeviceEvent> after);

  // Gives blocks back whose uses have passed since they were freed. While CUDA unpins them it may wait for devices: so an allocation does it
  // if it lacks memory, or if they have more than a quarter of what the live ones have.
  void GiveBack();
  void GiveBackIfMuch();

 private:
  struct Block {
    const Device* device = nullptr;  // through which CUDA has pinned it
    size_t bytes = 0;
    bool of_heap = false;
    int owners = 1;       // of CUDA's; the heap counts those of its own
    uint64_t number = 0;  // tells it from others that are at its address later
    std::vector<DeviceEvent> uses;
  };

  struct Leaving {
    void* begin = nullptr;
    Block block;
  };

  using Blocks = std::map<cuda::DevicePointer, Block>;

  absl::StatusOr<void*> AllocateThrough(const Device& device, size_t bytes);
  absl::StatusOr<void*> AllocateOfHeap(const Device& device, size_t bytes);
  absl::StatusOr<void*> AllocateOfCuda(const Device& device, size_t bytes);
  void Add(const void* begin, Block block);
  bool DecidePrivate(const absl::Status& refused);
  static bool LetGo(const Leaving& leaving);  // false: not tried, as the context cannot be entered
  Blocks::const_iterator BlockOf(const void* pointer) const WEFT_REQUIRES(mutex_);

  mutable Mutex mutex_;
  Blocks blocks_ WEFT_GUARDED_BY(mutex_);
  std::deque<Leaving> leaving_ WEFT_GUARDED_BY(mutex_);  // freed, and still CUDA's
  uint64_t count_ WEFT_GUARDED_BY(mutex_) = 0;
  size_t live_bytes_ WEFT_GUARDED_BY(mutex_) = 0;
  // Blocks come from CUDA; nothing: not decided.
  std::optional<bool> private_ WEFT_GUARDED_BY(mutex_);
};

}  // namespace weft
