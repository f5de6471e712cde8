// Memory of the caller's as a part of the heap: a block gets the contents, and then the block's pages
// replace the caller's under the caller's addresses. Of a file, only the books are written.
//
// The heap's mutex is held while the books are written, not while bytes are copied; a registration is
// `ready` in between only, so that a range whose pages move is nobody's.
#include <algorithm>
#include <cstring>

#include <sys/mman.h>

#include "base/mappings.h"
#include "base/status.h"
#include "base/text.h"
#include "comm/node/heap.h"
#include "comm/node/range_of_file.h"
#include "fmt/format.h"

namespace weft {
namespace {

// What a forked child and a core file get of the caller's range: as much as of the heap, nothing. The
// pages are present; the page table entries are made now rather than at the first touch.
void AdviseAsHeap(void* memory, size_t bytes) {
  KeepFromForksAndDumps(memory, bytes);
  (void)PopulateForWriting(memory, bytes);
}

std::string Registering(const void* memory, size_t bytes) {
  return fmt::format("registering {} bytes at {}: ", bytes, memory);
}

absl::Status Refuse(const void* memory, size_t bytes, std::string_view why) {
  return MakeError(WEFT_INVALID_ARGUMENT, StrCat(Registering(memory, bytes), why));
}

}  // namespace

std::optional<uint64_t> Heap::OffsetOf(const void* memory, size_t bytes) const {
  if (Contains(memory, bytes)) {
    return static_cast<uint64_t>(static_cast<const char*>(memory) -
                                 base_.load(std::memory_order_relaxed));
  }
  if (!MayBeRegistered(memory)) return std::nullopt;
  const auto address = reinterpret_cast<uintptr_t>(memory);
  MutexLock lock(mutex_);
  const auto found = RegistrationOf(address);
  if (found == registrations_.end()) return std::nullopt;
  const auto& [begin, registration] = *found;
  if (bytes > registration.bytes - (address - begin)) return std::nullopt;
  return registration.offset + (address - begin);
}

Heap::Registrations::const_iterator Heap::RegistrationOf(uintptr_t address) const {
  auto found = registrations_.upper_bound(address);
  if (found == registrations_.begin()) return registrations_.end();
  --found;
  const auto& [begin, registration] = *found;
  return registration.ready && address - begin < registration.bytes ? found : registrations_.end();
}

void Heap::SetRegisteredRange() {
  const bool none = registrations_.empty();
  const auto last = none ? registrations_.end() : std::prev(registrations_.end());
  registered_begin_.store(none ? UINTPTR_MAX : registrations_.begin()->first);
  registered_end_.store(none ? 0 : last->first + last->second.bytes);
}

absl::Status Heap::CheckForeign(const void* memory, size_t bytes) const {
  const auto begin = reinterpret_cast<uintptr_t>(memory);
  const uintptr_t end = begin + bytes;
  const auto next = registrations_.lower_bound(end);
  if (next != registrations_.begin()) {
    const auto& [other, registration] = *std::prev(next);
    if (other + registration.bytes > begin) {
      return Refuse(memory, bytes,
                    fmt::format("it overlaps {} bytes at {:#x}, which are registered already",
                                registration.bytes, other));
    }
  }
  const auto base = reinterpret_cast<uintptr_t>(base_.load(std::memory_order_relaxed));
  if (base != 0 && begin < base + bytes_.load(std::memory_order_relaxed) && base < end) {
    return Refuse(memory, bytes, "it is memory of weft's own heap, which needs no registration");
  }
  return absl::OkStatus();
}

// A block for the range, and a registration that is not ready.
absl::StatusOr<size_t> Heap::BeginRegistration(void* memory, size_t bytes) {
  WEFT_RETURN_IF_ERROR(CheckFork());
  {
    MutexLock lock(mutex_);
    WEFT_RETURN_IF_ERROR(CheckForeign(memory, bytes));
  }
  WEFT_RETURN_IF_ERROR(Annotate(CheckOrdinaryMemory(memory, bytes), Registering(memory, bytes)));
  MutexLock lock(mutex_);
  WEFT_RETURN_IF_ERROR(CheckForeign(memory, bytes));  // another thread may have been quicker
  WEFT_ASSIGN_OR_RETURN(const size_t offset, Take(bytes));
  blocks_[offset].registered = true;
  registrations_[reinterpret_cast<uintptr_t>(memory)] = {.offset = offset, .bytes = bytes};
  return offset;
}

absl::Status Heap::MoveIn(void* memory, size_t offset, size_t bytes) {
  std::memcpy(base_.load(std::memory_order_relaxed) + offset, memory, bytes);
  MutexLock lock(mutex_);  // pages_; the mapping takes no time
  return pages_.MapOver(memory, offset, bytes);
}

// The block has no owner any more.
void Heap::EndRegistration(uintptr_t address) {
  MutexLock lock(mutex_);
  const auto registration = registrations_.find(address);
  const auto block = blocks_.find(registration->second.offset);
  registrations_.erase(registration);
  SetRegisteredRange();
  block->second.registered = false;
  block->second.freed = true;
  Drop(block);
}

absl::Status Heap::Register(void* memory, size_t bytes) {
  const auto address = reinterpret_cast<uintptr_t>(memory);
  if (memory == nullptr || bytes == 0 || address % PageBytes() != 0 || bytes % PageBytes() != 0) {
    return Refuse(
        memory, bytes,
        StrCat("address and size must be multiples, not 0, of the page size, ", PageBytes()));
  }
  if (bytes > PTRDIFF_MAX || address > UINTPTR_MAX - bytes) {
    return Refuse(memory, bytes, "it is more than an address space has");
  }
  WEFT_ASSIGN_OR_RETURN(const size_t offset, BeginRegistration(memory, bytes));
  if (const absl::Status moved = MoveIn(memory, offset, bytes); !moved.ok()) {
    EndRegistration(address);
    return Annotate(moved, Registering(memory, bytes));
  }
  AdviseAsHeap(memory, bytes);
  MutexLock lock(mutex_);
  registrations_[address].ready = true;
  SetRegisteredRange();
  return absl::OkStatus();
}

absl::Status Heap::Deregister(void* memory) {
  const auto address = reinterpret_cast<uintptr_t>(memory);
  Registration registration;
  WEFT_RETURN_IF_ERROR(CheckFork());
  {
    MutexLock lock(mutex_);
    const auto found = registrations_.find(address);
    if (found == registrations_.end() || !found->second.ready) {
      return MakeError(WEFT_INVALID_ARGUMENT,
                       fmt::format("deregistering {}: no registration begins there", memory));
    }
    if (blocks_[found->second.offset].pins > 0) {
      return MakeError(WEFT_BAD_STATE,
                       fmt::format("deregistering {}: an operation of this process uses it; wait "
                                   "for the operation first",
                                   memory));
    }
    found->second.ready = false;
    registration = found->second;
  }
  if (registration.offset >= kFilePlaces) {
    EndRegistration(address);
    return absl::OkStatus();
  }
  if (const absl::Status mapped = MapPrivateOver(memory, registration.bytes); !mapped.ok()) {
    MutexLock lock(mutex_);
    registrations_[address].ready = true;
    return Annotate(mapped, fmt::format("deregistering {}: ", memory));
  }
  std::memcpy(memory, base_.load(std::memory_order_relaxed) + registration.offset,
              registration.bytes);
  EndRegistration(address);
  return absl::OkStatus();
}

absl::Status Heap::RegisterFile(void* memory, size_t bytes, int fd, uint64_t offset) {
  WEFT_RETURN_IF_ERROR(CheckFork());
  const std::string what = Registering(memory, bytes);
  absl::StatusOr<FileRanges::Range> range = RangeOfFile(root_, memory, bytes, fd, offset);
  if (!range.ok()) return Annotate(range.status(), what);
  MutexLock lock(mutex_);
  WEFT_RETURN_IF_ERROR(CheckForeign(memory, bytes));
  WEFT_RETURN_IF_ERROR(Reserve(1));
  const absl::StatusOr<uint64_t> place = files_.Add(*std::move(range));
  if (!place.ok()) {
    UnreserveIfUnused();
    return Annotate(place.status(), what);
  }
  blocks_[*place] = Block{.bytes = bytes, .registered = true};
  registrations_[reinterpret_cast<uintptr_t>(memory)] = {
      .offset = *place, .bytes = bytes, .ready = true};
  SetRegisteredRange();
  return absl::OkStatus();
}

absl::StatusOr<char*> Heap::AddressInFile(uint64_t place, uint64_t bytes) const {
  MutexLock lock(mutex_);
  const FileRange* const range = FileRanges::Find(files_.table(), place, bytes);
  if (range == nullptr) {
    return MakeError(WEFT_CORRUPT,
                     fmt::format("{} bytes of a file were announced that this process has not "
                                 "registered",
                                 bytes));
  }
  return range->address + (place - range->place.load());
}

}  // namespace weft
