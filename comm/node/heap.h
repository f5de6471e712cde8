// The process's symmetric heap: memory that peers on the node have mapped too.
//
//   WEFT_ASSIGN_OR_RETURN(void* block, ProcessHeap().Allocate(bytes));
//   ...
//   ProcessHeap().Free(block);
//
// One memfd of fixed, sealed size, reserved once and sparse; pages are allocated (fallocate) block by
// block and given back by punching holes. Peers map the whole of it once, when a group is made, so
// allocation is local and needs no message (docs/design/003-node.md).
//
// Thread-safety: all members, any thread; a mutex, not for steady paths. Contains() is lock-free.
// Lifetime: the reservation is made on first use and given back when the last block is freed and the
// last group has let go of it; then a later use makes a new one with another id.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "base/pages.h"

namespace weft {

class Heap {
 public:
  static constexpr size_t kAlignment = 4096;

  // Zeroed, present, page aligned. OUT_OF_MEMORY says how much was asked for and what is in use.
  absl::StatusOr<void*> Allocate(size_t bytes);

  // INVALID_ARGUMENT if `block` is not the start of a live block. A pinned block is freed when its
  // last pin goes, a quarantined one never.
  absl::Status Free(void* block);

  // True if [pointer, pointer + bytes) lies in the reservation.
  bool Contains(const void* pointer, size_t bytes) const;

  // Keeps the block that holds `pointer` from being reused; no effect on foreign pointers.
  void Pin(const void* pointer);
  void Unpin(const void* pointer);
  // A peer that cannot be reached may still write to the block: never reuse it.
  void Quarantine(const void* pointer);

  // Bytes in live blocks.
  size_t live_bytes() const;

  // What a group announces to its peers. The reservation stays until Release().
  struct Announcement {
    int fd = -1;       // borrowed: valid until Release()
    size_t bytes = 0;  // of the reservation
    uint64_t id = 0;   // random; tells this reservation from a later one
    char* base = nullptr;
  };

  absl::StatusOr<Announcement> Retain();
  void Release();

 private:
  struct Block {
    size_t bytes = 0;
    int pins = 0;
    bool freed = false;
    bool quarantined = false;
  };

  absl::Status Reserve() WEFT_REQUIRES(mutex_);
  void UnreserveIfUnused() WEFT_REQUIRES(mutex_);
  absl::StatusOr<size_t> FindGap(size_t bytes) WEFT_REQUIRES(mutex_);
  void Drop(std::map<size_t, Block>::iterator block) WEFT_REQUIRES(mutex_);
  std::map<size_t, Block>::iterator BlockOf(const void* pointer) WEFT_REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::map<size_t, Block> blocks_ WEFT_GUARDED_BY(mutex_);  // by offset
  size_t live_bytes_ WEFT_GUARDED_BY(mutex_) = 0;
  int references_ WEFT_GUARDED_BY(mutex_) = 0;
  Pages pages_ WEFT_GUARDED_BY(mutex_);
  uint64_t id_ WEFT_GUARDED_BY(mutex_) = 0;
  std::atomic<char*> base_{nullptr};
  std::atomic<size_t> bytes_{0};
};

// This process's heap; errors of making it come from Allocate and Retain.
Heap& ProcessHeap();

}  // namespace weft
