// What makes this longer than an allocator is that its memory is not only the process's own: peers have it mapped at all
// times. So a block's pages are taken when it is (a fault on a full machine would end a process that did nothing), limits
// that the kernel enforces by ending somebody are read before, and a block that a stopped peer may still write is never
// used again.
#include "comm/node/heap.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <new>
#include <utility>

#include <pthread.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include "absl/strings/numbers.h"
#include "base/cgroup.h"
#include "base/file.h"
#include "base/log.h"
#include "base/options.h"
#include "base/status.h"
#include "base/text.h"
#include "comm/group/fork.h"
#include "fmt/format.h"

namespace weft {
namespace {

#ifdef WEFT_SANITIZE
constexpr size_t kDefaultBytesMax = size_t{2} << 30;  // shadow memory is made for all of it
#else
constexpr size_t kDefaultBytesMax = size_t{1} << 42;
#endif
constexpr size_t kBytesMin = size_t{64} << 20;
// Between two looks at what control groups allow: other processes take memory at the same time.
constexpr size_t kTakenAtOnce = size_t{16} << 20;

size_t RoundUp(size_t bytes) {
  const size_t unit = std::max(Heap::kAlignment, PageBytes());
  return (bytes + unit - 1) / unit * unit;
}

// The addresses that RLIMIT_AS still allows; SIZE_MAX if it sets no limit.
size_t AddressesLeft() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return SIZE_MAX;
  size_t pages = 0;  // of all mappings, the first number
  const std::string statm = ReadFileStart("/proc/self/statm");
  if (!absl::SimpleAtoi(statm.substr(0, statm.find(' ')), &pages)) return limit.rlim_cur;
  return limit.rlim_cur - std::min<size_t>(limit.rlim_cur, pages * PageBytes());
}

size_t Half(size_t bytes) {
  return std::max(RoundUp(bytes / 2), kBytesMin);
}

// `bytes`, halved until half of the addresses is left to the program if `heap_count` processes map such heaps of each
// other.
size_t Fitting(size_t bytes, int heap_count) {
  const size_t each = AddressesLeft() / 2 / static_cast<size_t>(heap_count);
  while (bytes > each && bytes > kBytesMin)
    bytes = Half(bytes);
  return bytes;
}

// Once: a process that makes heaps again and again meets the same limits.
void SayReduced(size_t bytes, size_t wanted, const absl::Status& failed) {
  static std::atomic<bool> said{false};
  if (said.exchange(true)) return;
  LogWarn("the shared heap has ", FormatBytes(bytes), " of addresses instead of ",
          FormatBytes(wanted), ": ",
          failed.ok()
              ? "the heaps of all ranks of the node must fit the limit on addresses, ulimit -v"
              : std::string(failed.message()),
          "; it holds no more memory than that, WEFT_HEAP_BYTES sets its size");
}

// Address space to reserve: what was asked for, else as much as the machine has memory.
size_t WantedBytes() {
  const int64_t asked = GetOptions().heap_bytes;
  if (asked > 0) return RoundUp(std::max<size_t>(static_cast<size_t>(asked), kBytesMin));
  const size_t physical =
      static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return RoundUp(std::clamp(physical, kBytesMin, kDefaultBytesMax));
}

}  // namespace

absl::Status Heap::CheckFork() const {
  if (Here()) return absl::OkStatus();
  return MakeError(WEFT_FORKED,
                   "the shared heap belongs to the parent of this forked process; fork before the "
                   "first use of weft");
}

// Limits on addresses, locked memory or file size make a large reservation fail: then half of it is tried.
absl::Status Heap::Reserve(int heap_count) {
  if (pages_.mapped()) return absl::OkStatus();
  uint64_t id = 0;
  if (getrandom(&id, sizeof(id), 0) != static_cast<ssize_t>(sizeof(id))) {
    return SystemError(errno, "reserving the shared heap: getrandom");
  }
  const size_t wanted = WantedBytes();
  // Who sets a size has thought of the others.
  size_t bytes = GetOptions().heap_bytes > 0 ? wanted : Fitting(wanted, heap_count);
  absl::Status failed;
  while (true) {
    absl::StatusOr<Pages> pages = Pages::Create("weft-heap", bytes, Backing::kSparse);
    if (!pages.ok()) {
      failed = pages.status();
      if (bytes <= kBytesMin) return Annotate(failed, "reserving the shared heap: ");
      bytes = Half(bytes);
      continue;
    }
    reserved_in_.store(ForkGeneration(), std::memory_order_release);
    pages_ = *std::move(pages);
    fd_.store(pages_.fd(), std::memory_order_relaxed);
    // A forked child must not write into running collectives.
    KeepFromForksAndDumps(pages_.data(), pages_.size());
    id_ = id;
    bytes_.store(pages_.size(), std::memory_order_release);
    base_.store(reinterpret_cast<char*>(pages_.data()), std::memory_order_release);
    if (pages_.size() < wanted) SayReduced(pages_.size(), wanted, failed);
    return absl::OkStatus();
  }
}

void Heap::UnreserveIfUnused() {
  if (!pages_.mapped() || references_ > 0 || !blocks_.empty()) return;
  base_.store(nullptr);
  bytes_.store(0);
  fd_.store(-1, std::memory_order_relaxed);
  pages_ = Pages();
  reserved_in_.store(0, std::memory_order_release);
}

absl::StatusOr<size_t> Heap::FindGap(size_t bytes) {
  size_t begin = full_below_;
  const auto files = blocks_.lower_bound(kFilePlaces);
  for (auto next = blocks_.lower_bound(begin); next != files; ++next) {
    if (next->first - begin >= bytes) return begin;
    begin = next->first + next->second.bytes;
  }
  const size_t end = bytes_.load(std::memory_order_relaxed);
  if (end - begin >= bytes) return begin;
  return MakeError(WEFT_OUT_OF_MEMORY,
                   StrCat("allocating ", FormatBytes(bytes), " of shared memory: the heap of ",
                          FormatBytes(end), " has ", FormatBytes(live_bytes_),
                          " in use and no gap that large; use less memory, or raise "
                          "WEFT_HEAP_BYTES if the machine has more"));
}

absl::Status Heap::TakePages(size_t offset, size_t bytes) {
  try {
    blocks_[offset] = Block{.bytes = bytes};
    while (bytes > 0) {
      WEFT_RETURN_IF_ERROR(CheckCgroupMemory(root_, bytes));
      const size_t now = std::min(bytes, kTakenAtOnce);
      WEFT_RETURN_IF_ERROR(pages_.Allocate(offset, now));
      offset += now;
      bytes -= now;
    }
    return absl::OkStatus();
  } catch (const std::bad_alloc&) {
    return MakeError(WEFT_OUT_OF_MEMORY, "keeping the books of the shared heap: out of memory");
  }
}

// A new block of `bytes`, which are whole pages; returns its offset.
absl::StatusOr<size_t> Heap::Take(size_t bytes) {
  WEFT_RETURN_IF_ERROR(Reserve(1));
  absl::StatusOr<size_t> offset = FindGap(bytes);
  if (!offset.ok()) {
    UnreserveIfUnused();
    return offset.status();
  }
  if (const absl::Status taken = TakePages(*offset, bytes); !taken.ok()) {
    (void)pages_.Release(*offset, bytes);
    blocks_.erase(*offset);
    const absl::Status error =
        Annotate(taken, StrCat("allocating ", FormatBytes(bytes), " of shared memory, with ",
                               FormatBytes(live_bytes_), " in use: "));
    UnreserveIfUnused();
    return error;
  }
  if (*offset == full_below_) full_below_ += bytes;
  (void)pages_.Populate(*offset, bytes);  // best effort: saves page faults later
  live_bytes_ += bytes;
  return *offset;
}

absl::StatusOr<void*> Heap::Allocate(size_t bytes) {
  if (bytes == 0) return MakeError(WEFT_INVALID_ARGUMENT, "allocating 0 bytes of shared memory");
  if (bytes > PTRDIFF_MAX) {
    return MakeError(WEFT_OUT_OF_MEMORY, StrCat("allocating ", bytes,
                                                " bytes of shared memory: more than an address "
                                                "space has"));
  }
  WEFT_RETURN_IF_ERROR(CheckFork());
  MutexLock lock(mutex_);
  WEFT_ASSIGN_OR_RETURN(const size_t offset, Take(RoundUp(bytes)));
  return base_.load(std::memory_order_relaxed) + offset;
}

std::map<size_t, Heap::Block>::iterator Heap::BlockOf(const void* pointer) {
  const auto block = static_cast<const Heap*>(this)->BlockOf(pointer);
  return block == blocks_.end() ? blocks_.end() : blocks_.find(block->first);
}

size_t Heap::BlockBytes(const void* pointer) const {
  if (!Here()) return 0;
  MutexLock lock(mutex_);
  const auto block = BlockOf(pointer);
  return block == blocks_.end() ? 0 : block->second.bytes;
}

std::map<size_t, Heap::Block>::const_iterator Heap::BlockOf(const void* pointer) const {
  char* const base = base_.load(std::memory_order_relaxed);
  if (base == nullptr) return blocks_.end();
  if (!Contains(pointer, 1)) {
    const auto registration = RegistrationOf(reinterpret_cast<uintptr_t>(pointer));
    return registration == registrations_.end() ? blocks_.end()
                                                : blocks_.find(registration->second.offset);
  }
  const auto offset = static_cast<size_t>(static_cast<const char*>(pointer) - base);
  auto block = blocks_.upper_bound(offset);
  if (block == blocks_.begin()) return blocks_.end();
  --block;
  return offset < block->first + block->second.bytes ? block : blocks_.end();
}

void Heap::Drop(std::map<size_t, Block>::iterator block) {
  if (block->second.pins > 0 || block->second.quarantined) return;
  if (block->first >= kFilePlaces) {
    files_.Remove(block->first);
    blocks_.erase(block);
    UnreserveIfUnused();
    return;
  }
  (void)pages_.Release(block->first, block->second.bytes);
  // Its owner may have wanted it in core dumps; what is no block must not be there.
  madvise(pages_.data() + block->first, block->second.bytes, MADV_DONTDUMP);
  live_bytes_ -= block->second.bytes;
  full_below_ = std::min(full_below_, block->first);
  blocks_.erase(block);
  UnreserveIfUnused();
}

absl::Status Heap::Free(void* pointer) {
  WEFT_RETURN_IF_ERROR(CheckFork());
  MutexLock lock(mutex_);
  const auto block = BlockOf(pointer);
  if (block == blocks_.end() || block->second.freed || block->second.registered ||
      pointer != base_.load(std::memory_order_relaxed) + block->first) {
    return MakeError(WEFT_INVALID_ARGUMENT,
                     fmt::format("freeing {}: it is not a block of the shared heap", pointer));
  }
  if (block->second.shared) {
    return MakeError(WEFT_INVALID_ARGUMENT,
                     fmt::format("freeing {}: it is shared with other ranks; all of them free it, "
                                 "with weft_mem_free_shared",
                                 pointer));
  }
  if (--block->second.owners > 0) return absl::OkStatus();
  block->second.freed = true;
  Drop(block);
  return absl::OkStatus();
}

absl::StatusOr<void*> Heap::AddOwner(const void* pointer) {
  WEFT_RETURN_IF_ERROR(CheckFork());
  MutexLock lock(mutex_);
  const auto block = BlockOf(pointer);
  if (block == blocks_.end() || block->second.freed || block->second.registered) {
    return MakeError(WEFT_INVALID_ARGUMENT,
                     fmt::format("keeping {}: no block of the shared heap holds it", pointer));
  }
  if (block->second.shared) {
    return MakeError(
        WEFT_UNSUPPORTED,
        fmt::format("keeping {}: it is shared with other ranks, which free it together", pointer));
  }
  ++block->second.owners;
  return base_.load(std::memory_order_relaxed) + block->first;
}

std::optional<Heap::Place> Heap::PlaceOf(const void* pointer) const {
  if ((!Contains(pointer, 1) && !MayBeRegistered(pointer)) || !Here()) return std::nullopt;
  MutexLock lock(mutex_);
  const auto block = BlockOf(pointer);
  if (block == blocks_.end() || block->second.freed) return std::nullopt;
  const Block& found = block->second;
  if (found.registered) {
    const auto registration = RegistrationOf(reinterpret_cast<uintptr_t>(pointer));
    if (registration == registrations_.end()) return std::nullopt;
    return Place{.begin = std::bit_cast<void*>(registration->first),
                 .bytes = registration->second.bytes,
                 .registered = true};
  }
  return Place{.begin = base_.load(std::memory_order_relaxed) + block->first,
               .bytes = found.bytes,
               .owners = found.owners,
               .shared = found.shared};
}

void Heap::SetShared(const void* pointer, bool shared) {
  if (!Here()) return;
  MutexLock lock(mutex_);
  if (const auto block = BlockOf(pointer); block != blocks_.end()) block->second.shared = shared;
}

bool Heap::Contains(const void* pointer, size_t bytes) const {
  const char* const base = base_.load(std::memory_order_acquire);
  if (base == nullptr) return false;
  const auto offset = reinterpret_cast<uintptr_t>(pointer) - reinterpret_cast<uintptr_t>(base);
  const size_t end = bytes_.load(std::memory_order_acquire);
  return offset < end && bytes <= end - offset;
}

void Heap::Pin(const void* pointer) {
  if ((!Contains(pointer, 1) && !MayBeRegistered(pointer)) || !Here()) return;
  MutexLock lock(mutex_);
  if (const auto block = BlockOf(pointer); block != blocks_.end()) ++block->second.pins;
}

void Heap::Unpin(const void* pointer) {
  if ((!Contains(pointer, 1) && !MayBeRegistered(pointer)) || !Here()) return;
  MutexLock lock(mutex_);
  const auto block = BlockOf(pointer);
  if (block == blocks_.end() || block->second.pins == 0) return;
  --block->second.pins;
  if (block->second.freed) Drop(block);
}

void Heap::Quarantine(const void* pointer) {
  if (!Here()) return;
  MutexLock lock(mutex_);
  if (const auto block = BlockOf(pointer); block != blocks_.end()) block->second.quarantined = true;
}

size_t Heap::live_bytes() const {
  if (!Here()) return 0;
  MutexLock lock(mutex_);
  return live_bytes_;
}

absl::StatusOr<Heap::Announcement> Heap::Retain(int heap_count) {
  WEFT_RETURN_IF_ERROR(CheckFork());
  MutexLock lock(mutex_);
  WEFT_RETURN_IF_ERROR(Reserve(heap_count));
  ++references_;
  return Announcement{pages_.fd(), bytes_.load(std::memory_order_relaxed), id_,
                      base_.load(std::memory_order_relaxed), files_.table_address()};
}

void Heap::Release() {
  if (!Here()) return;
  MutexLock lock(mutex_);
  --references_;
  UnreserveIfUnused();
}

// The descriptor keeps the memory as a mapping does. Once: a child of the child may have another file by that number.
void Heap::LetGo() {
  const int fd = fd_.exchange(-1, std::memory_order_relaxed);
  if (fd >= 0) close(fd);
  files_.LetGo();
}

namespace {

// Never destroyed: groups may outlive static destructors.
constinit std::atomic<Heap*> process_heap{nullptr};

void LetGoOfParents() {
  if (Heap* const heap = process_heap.load(std::memory_order_relaxed)) heap->LetGo();
}

// As OfThisProcess (of_this_process.h), but for a child whose parent had reserved its heap.
Heap& MakeProcessHeap(Heap* known) {
  auto* const made = new Heap("", known);
  if (!process_heap.compare_exchange_strong(known, made, std::memory_order_acq_rel)) {
    delete made;  // another thread was quicker
    return *known;
  }
  if (known == nullptr) pthread_atfork(nullptr, nullptr, LetGoOfParents);
  return *made;
}

}  // namespace

Heap& ProcessHeap() {
  Heap* const known = process_heap.load(std::memory_order_acquire);
  return known != nullptr && known->serves() ? *known : MakeProcessHeap(known);
}

}  // namespace weft
