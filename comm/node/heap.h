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
// Memory that the caller owns can be made part of the heap: Register() moves its pages into a block,
// which then has two addresses, the caller's and one inside the reservation. Peers know the latter only.
//
//   WEFT_RETURN_IF_ERROR(ProcessHeap().Register(mine, bytes));
//   ... ProcessHeap().OffsetOf(mine + k, n) ...              // where peers find it
//   WEFT_RETURN_IF_ERROR(ProcessHeap().Deregister(mine));
//
// What peers can map by itself, a range of a file, stays where it is: RegisterFile() tells peers where to find it.
//
// The reservation is what the options or the machine's memory say, halved until limits on addresses, files
// and locked memory allow it; that is logged once. Memory is refused before a control group's limit would be
// exceeded, for which the kernel ends a process.
//
// No heap is in a core dump, neither one's own nor those of peers: a dump would take the pages of all of their
// addresses. A block whose owner wants it there gets madvise(block, bytes, MADV_DODUMP), which lasts until it is freed.
//
// Thread-safety: all members, any thread; a mutex, not for steady paths. Contains() is lock-free, and
// OffsetOf, Pin and Unpin are for pointers that lie neither in the reservation nor near a registration.
// Lifetime: the reservation is made on first use and given back when the last block is freed and the
// last group has let go of it; then a later use makes a new one with another id.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "base/pages.h"
#include "comm/group/fork.h"
#include "comm/node/file_ranges.h"

namespace weft {

class Heap {
 public:
  static constexpr size_t kAlignment = 4096;

  // `root` has the files that say what control groups allow (base/cgroup.h): "" but in tests. `parents`: of a forked
  // child, which keeps it reachable for those who look for leaks.
  explicit Heap(std::string root = "", const Heap* parents = nullptr)
      : parents_(parents), root_(std::move(root)) {}

  // Zeroed, present, page aligned. OUT_OF_MEMORY says how much was asked for and what is in use.
  absl::StatusOr<void*> Allocate(size_t bytes);

  // Moves the pages of [memory, memory + bytes) into a new block: same addresses, same contents. Whole
  // pages of private memory only, and nobody may touch them while this runs. INVALID_ARGUMENT,
  // OUT_OF_MEMORY and SYSTEM_ERROR leave the range as it was. A forked child does not have the range.
  absl::Status Register(void* memory, size_t bytes);

  // Makes [memory, memory + bytes) reachable, which is a shared mapping of `fd` from byte `offset` on: a memfd or a file of
  // tmpfs or hugetlbfs, open for reading and writing. Its pages are taken now. INVALID_ARGUMENT, UNSUPPORTED (another kind
  // of file), OUT_OF_MEMORY, SYSTEM_ERROR.
  absl::Status RegisterFile(void* memory, size_t bytes, int fd, uint64_t offset);

  // This process's own address of a place in a file that it has registered. CORRUPT if it has no such range.
  absl::StatusOr<char*> AddressInFile(uint64_t place, uint64_t bytes) const;

  // Ends a registration. Of RegisterFile() the range stays mapped as it is. Of Register() it gets private pages with its
  // contents again, and the block is given back; a quarantined block stays. BAD_STATE while it is pinned; INVALID_ARGUMENT if
  // `memory` begins no registration.
  absl::Status Deregister(void* memory);

  // Where peers find [memory, memory + bytes): the offset in the reservation if the range lies in it or
  // in one registration, or a place in a file, kFilePlaces or more. A range of the reservation that no block holds is the caller's mistake and
  // not looked for.
  std::optional<uint64_t> OffsetOf(const void* memory, size_t bytes) const;

  // False if `memory` is surely not registered, which is told by two loads.
  bool MayBeRegistered(const void* memory) const {
    const auto address = reinterpret_cast<uintptr_t>(memory);
    return address < registered_end_.load(std::memory_order_acquire) &&
           address >= registered_begin_.load(std::memory_order_acquire);
  }

  // INVALID_ARGUMENT if `block` is not the start of a live block. A pinned block is freed when its
  // last pin goes, a quarantined one never.
  absl::Status Free(void* block);

  // The block that holds `pointer` takes one more Free(); returns where it begins. INVALID_ARGUMENT if no live block of
  // Allocate() does, UNSUPPORTED if all ranks of a group have it.
  absl::StatusOr<void*> AddOwner(const void* pointer);

  // What holds a pointer. `owners`: how many Free() it takes, 0 of a registration.
  struct Place {
    void* begin = nullptr;
    size_t bytes = 0;
    int owners = 0;
    bool registered = false;
    bool shared = false;
  };

  // Nothing if no live block and no registration holds it.
  std::optional<Place> PlaceOf(const void* pointer) const;

  // A live block that all ranks of a group have: Free() refuses it until it is said not to be shared.
  void SetShared(const void* block, bool shared);

  // True if [pointer, pointer + bytes) lies in the reservation.
  bool Contains(const void* pointer, size_t bytes) const;

  // Keeps the block that holds `pointer` from being reused, and a registration from ending; no effect on
  // foreign pointers.
  void Pin(const void* pointer);
  void Unpin(const void* pointer);
  // A peer that cannot be reached may still write to the block: never reuse it.
  void Quarantine(const void* pointer);

  // Bytes of the block that holds `pointer`; 0 if none does.
  size_t BlockBytes(const void* pointer) const;

  // Bytes in live blocks.
  size_t live_bytes() const;

  // What a group announces to its peers. The reservation stays until Release().
  struct Announcement {
    int fd = -1;       // borrowed: valid until Release()
    size_t bytes = 0;  // of the reservation
    uint64_t id = 0;   // random; tells this reservation from a later one
    char* base = nullptr;
    const void* files = nullptr;  // FileRanges::table_address()
  };

  // `heap_count` processes with heaps like this one will map each other's: where addresses are limited, a
  // reservation that is made now leaves room for the others.
  absl::StatusOr<Announcement> Retain(int heap_count = 1);
  void Release();

  // FORKED if a parent of this process had reserved it: the heap is the parent's then, and does nothing here. Every
  // function asks first, and takes no lock before: another thread of the parent may have held it at the fork.
  absl::Status CheckFork() const;

  // True in the process that uses it, and in children that it was reserved before: it tells them off.
  bool serves() const {
    return origin_.here() || reserved_in_.load(std::memory_order_acquire) != 0;
  }

  // In a forked child before fork() returns there: the child keeps nothing of the heap.
  void LetGo();

 private:
  struct Block {
    size_t bytes = 0;
    int pins = 0;
    int owners = 1;
    bool freed = false;
    bool quarantined = false;
    bool registered = false;  // its owner is a Registration
    bool shared = false;      // its owner is a group
  };

  struct Registration {
    size_t offset = 0;  // of its block, or its place in a file
    size_t bytes = 0;
    bool ready = false;  // false while its pages move
  };

  using Registrations = std::map<uintptr_t, Registration>;  // by the caller's address

  absl::StatusOr<size_t> Take(size_t bytes) WEFT_REQUIRES(mutex_);
  absl::Status CheckForeign(const void* memory, size_t bytes) const WEFT_REQUIRES(mutex_);
  absl::StatusOr<size_t> BeginRegistration(void* memory, size_t bytes);
  absl::Status MoveIn(void* memory, size_t offset, size_t bytes);
  void EndRegistration(uintptr_t address);
  Registrations::const_iterator RegistrationOf(uintptr_t address) const WEFT_REQUIRES(mutex_);
  void SetRegisteredRange() WEFT_REQUIRES(mutex_);

  absl::Status Reserve(int heap_count) WEFT_REQUIRES(mutex_);
  absl::Status TakePages(size_t offset, size_t bytes) WEFT_REQUIRES(mutex_);
  void UnreserveIfUnused() WEFT_REQUIRES(mutex_);
  absl::StatusOr<size_t> FindGap(size_t bytes) WEFT_REQUIRES(mutex_);
  void Drop(std::map<size_t, Block>::iterator block) WEFT_REQUIRES(mutex_);
  std::map<size_t, Block>::const_iterator BlockOf(const void* pointer) const WEFT_REQUIRES(mutex_);
  std::map<size_t, Block>::iterator BlockOf(const void* pointer) WEFT_REQUIRES(mutex_);

  // False in a child for which CheckFork() is FORKED.
  bool Here() const {
    const uint32_t reserved_in = reserved_in_.load(std::memory_order_acquire);
    return reserved_in == 0 || IsForkGeneration(reserved_in);
  }

  const Origin origin_;
  [[maybe_unused]] const Heap* const parents_ = nullptr;
  const std::string root_;
  mutable Mutex mutex_;
  // By offset. Those at places of registered files have no memory of the reservation.
  std::map<size_t, Block> blocks_ WEFT_GUARDED_BY(mutex_);
  // No gap lies before it: blocks that are taken one after the other are not looked through each time.
  size_t full_below_ WEFT_GUARDED_BY(mutex_) = 0;
  size_t live_bytes_ WEFT_GUARDED_BY(mutex_) = 0;
  int references_ WEFT_GUARDED_BY(mutex_) = 0;
  Pages pages_ WEFT_GUARDED_BY(mutex_);
  uint64_t id_ WEFT_GUARDED_BY(mutex_) = 0;
  Registrations registrations_ WEFT_GUARDED_BY(mutex_);
  FileRanges files_;  // changed under mutex_
  // From the first registration's first byte to the last one's end.
  std::atomic<uintptr_t> registered_begin_{UINTPTR_MAX};
  std::atomic<uintptr_t> registered_end_{0};
  std::atomic<char*> base_{nullptr};
  std::atomic<size_t> bytes_{0};
  std::atomic<uint32_t> reserved_in_{
      0};                    // the ForkGeneration() of the reservation; 0: there is none
  std::atomic<int> fd_{-1};  // pages_.fd(), for LetGo()
};

// Pins the registration that holds `memory`, if one does, for a scope.
class RegistrationPin {
 public:
  RegistrationPin(Heap& heap, const void* memory)
      : heap_(heap), memory_(heap.MayBeRegistered(memory) ? memory : nullptr) {
    if (memory_ != nullptr) heap_.Pin(memory_);
  }

  RegistrationPin(const RegistrationPin&) = delete;
  RegistrationPin& operator=(const RegistrationPin&) = delete;

  ~RegistrationPin() {
    if (memory_ != nullptr) heap_.Unpin(memory_);
  }

 private:
  Heap& heap_;
  const void* const memory_;
};

// This process's heap; errors of making it come from Allocate and Retain. In a forked child its parent's, if that was
// reserved.
Heap& ProcessHeap();

}  // namespace weft
