// weft's memory on one device.
//
//   DeviceHeap heap(device);
//   WEFT_ASSIGN_OR_RETURN(void* const block, heap.Allocate(bytes, stream));    // zeros, for what follows in `stream`
//   WEFT_RETURN_IF_ERROR(heap.AddUse(block, std::move(event)));               // weft's own: the block stays until it has passed
//   WEFT_RETURN_IF_ERROR(heap.Free(block, std::nullopt));
//
// Blocks of up to 1 MiB share chunks of 2 MiB, which is the unit that devices map memory in; a larger block has a chunk of its
// own. Blocks are aligned to 512 bytes at least. A chunk without blocks goes back to the driver, but for one that is kept for
// the next small block.
//
// A device that can maps memory that other processes can map, too (DeviceChunk::Map). Where that is refused the device's
// memory is plain, which is decided once and logged. CUDA waits for the device when a plain chunk goes back, so that is done by an
// Allocate(), which lacks memory or finds that more than a quarter of what the blocks have is to go back: Free() waits for no device.
//
// A freed block is handed out again once the events of weft's own uses have passed. They are looked at in later calls; nobody waits.
//
// Thread-safety: all members, any thread. No lock is held while the driver makes or takes memory.
// Lifetime: for the process's life, as the device is open.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "comm/device/driver/device.h"
#include "comm/device/driver/stream.h"
#include "comm/device/memory/chunk.h"
#include "comm/device/memory/chunk_gaps.h"

namespace weft {

// Drops the events that have passed; true if none is left. One that cannot be asked has not passed.
bool HavePassed(std::vector<DeviceEvent>* uses);

class DeviceHeap {
 public:
  static constexpr size_t kAlignment = 512;
  static constexpr size_t kSharedChunkBytes = size_t{2} << 20;
  static constexpr size_t kSmallBytesMax = kSharedChunkBytes / 2;

  explicit DeviceHeap(const Device& device) : device_(device) {}

  const Device& device() const { return device_; }

  // A block of at least `bytes` > 0, zeroed by `stream` or, of AllocateCopy(), with a copy of `bytes` bytes at `from` that
  // `stream` makes. Neither waits for the stream. OUT_OF_MEMORY says how much is free. UNSUPPORTED if the stream is being
  // captured into a graph, INVALID_ARGUMENT if it is another device's.
  absl::StatusOr<void*> Allocate(size_t bytes, cuda::Stream stream);
  absl::StatusOr<void*> AllocateCopy(const void* from, size_t bytes, cuda::Stream stream);

  struct Place {
    void* begin = nullptr;
    size_t bytes = 0;
    int owners = 0;
  };

  // Nothing if no live block holds the pointer.
  std::optional<Place> PlaceOf(const void* pointer) const;

  // The block that holds `pointer` takes one more Free(); returns where it begins. INVALID_ARGUMENT if no live block does.
  absl::StatusOr<void*> AddOwner(const void* pointer);

  // Keeps the block that holds `pointer` from being handed out again until `event` has passed.
  absl::Status AddUse(const void* pointer, DeviceEvent event);

  // INVALID_ARGUMENT if `block` does not begin a live block. `after`: a use more.
  absl::Status Free(void* block, std::optional<DeviceEvent> after);

 private:
  using Address = cuda::DevicePointer;

  struct Chunk {
    DeviceChunk memory;
    bool shared = false;
    size_t blocks = 0;  // also those that leave
  };

  struct Block {
    size_t bytes = 0;
    int owners = 1;
    std::vector<DeviceEvent> uses;
  };

  struct Leaving {
    Address begin = 0;
    size_t bytes = 0;
    std::vector<DeviceEvent> uses;
  };

  using Blocks = std::map<Address, Block>;
  using Fill = std::function<absl::Status(Address memory, size_t bytes)>;

  absl::StatusOr<void*> AllocateFilled(size_t bytes, cuda::Stream stream, const Fill& fill);
  absl::StatusOr<DeviceEvent> Enqueue(cuda::Stream stream,
                                      const std::function<absl::Status()>& work, bool* is_enqueued);
  absl::StatusOr<Leaving> TakePiece(size_t bytes);
  std::optional<Leaving> TakeGap(size_t bytes) WEFT_REQUIRES(mutex_);
  Leaving AddChunk(DeviceChunk memory, size_t bytes, bool shared) WEFT_REQUIRES(mutex_);
  void ReturnPiece(const Leaving& piece) WEFT_REQUIRES(mutex_);
  void Retire(std::map<Address, Chunk>::iterator chunk) WEFT_REQUIRES(mutex_);
  void RetireAll();

  absl::StatusOr<DeviceChunk> MakeRoomFor(size_t bytes);
  absl::StatusOr<DeviceChunk> MakeChunk(size_t bytes);
  bool IsPlain();
  bool DecidePlain(std::string_view why);
  absl::Status Describe(const absl::Status& failed);

  void LookAtLeaving(size_t count_max) WEFT_REQUIRES(mutex_);
  enum class Plain : uint8_t { kNone, kIfMuch, kAll };  // of the plain chunks, for which CUDA waits
  void GiveBack(Plain plain);
  bool IsMuchRetired() const WEFT_REQUIRES(mutex_);
  uint64_t CountGiven();
  void WaitForGivers();

  Blocks::const_iterator BlockOf(const void* pointer) const WEFT_REQUIRES(mutex_);

  const Device& device_;
  mutable Mutex mutex_;
  std::optional<bool> plain_ WEFT_GUARDED_BY(mutex_);  // nothing: not decided
  std::map<Address, Chunk> chunks_ WEFT_GUARDED_BY(mutex_);
  std::optional<Address> spare_ WEFT_GUARDED_BY(mutex_);  // a shared chunk without blocks
  ChunkGaps gaps_ WEFT_GUARDED_BY(mutex_);                // of shared chunks
  Blocks blocks_ WEFT_GUARDED_BY(mutex_);
  size_t live_bytes_ WEFT_GUARDED_BY(mutex_) = 0;
  std::deque<Leaving> leaving_ WEFT_GUARDED_BY(mutex_);       // freed; their uses have not passed
  std::vector<DeviceChunk> retired_ WEFT_GUARDED_BY(mutex_);  // without blocks, not given back yet
  size_t giving_ WEFT_GUARDED_BY(mutex_) = 0;                 // chunks that threads are giving back
  uint64_t given_ WEFT_GUARDED_BY(mutex_) = 0;                // that are back
  std::condition_variable has_given_;
};

}  // namespace weft
