#include "comm/device/memory/device_heap.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/pages.h"
#include "base/status.h"
#include "base/text.h"
#include "comm/device/memory/address.h"
#include "fmt/format.h"

namespace weft {
namespace {

// Freed blocks that one call looks at: their events cost a driver call each.
constexpr size_t kLookedAtMax = 64;

// How often an allocation that lacks memory tries again because some came back.
constexpr int kTriesMax = 16;

size_t RoundToAlignment(size_t bytes) {
  return (bytes + DeviceHeap::kAlignment - 1) / DeviceHeap::kAlignment * DeviceHeap::kAlignment;
}

}  // namespace

bool HavePassed(std::vector<DeviceEvent>* uses) {
  uses->erase(std::remove_if(uses->begin(), uses->end(),
                             [](const DeviceEvent& event) {
                               const absl::StatusOr<bool> passed = event.Passed();
                               return passed.ok() && *passed;
                             }),
              uses->end());
  return uses->empty();
}

absl::StatusOr<void*> DeviceHeap::Allocate(size_t bytes, cuda::Stream stream) {
  return AllocateFilled(bytes, stream, [&](Address memory, size_t of_block) {
    return device_.Check(device_.driver->MemsetD8Async(memory, 0, of_block, stream),
                         "cuMemsetD8Async of ", FormatBytes(of_block));
  });
}

absl::StatusOr<void*> DeviceHeap::AllocateCopy(const void* from, size_t bytes,
                                               cuda::Stream stream) {
  return AllocateFilled(bytes, stream, [&](Address memory, size_t) {
    return device_.Check(device_.driver->MemcpyAsync(memory, DeviceAddress(from), bytes, stream),
                         "cuMemcpyAsync of ", FormatBytes(bytes));
  });
}

absl::StatusOr<void*> DeviceHeap::AllocateFilled(size_t bytes, cuda::Stream stream,
                                                 const Fill& fill) {
  if (bytes > device_.facts.total_bytes) {
    return MakeError(
        WEFT_OUT_OF_MEMORY, {.device = device_.facts.ordinal},
        StrCat("allocating ", bytes, " bytes of device memory: device ", device_.facts.ordinal,
               " has ", FormatBytes(device_.facts.total_bytes)));
  }
  const std::string doing = StrCat("allocating ", FormatBytes(bytes), " of device memory: ");
  if (const absl::Status open = CheckStream(device_, stream); !open.ok()) {
    return Annotate(open, doing);
  }
  GiveBack(Plain::kIfMuch);
  absl::StatusOr<Leaving> piece = TakePiece(bytes);
  if (!piece.ok()) return Describe(Annotate(piece.status(), doing));
  bool is_filling = false;
  absl::StatusOr<DeviceEvent> filled = Enqueue(
      stream, [&] { return fill(piece->begin, piece->bytes); }, &is_filling);
  if (!filled.ok()) {
    if (is_filling) {
      // It would come when the memory is somebody else's, and to wait for it might take for ever.
      LogWarn(FormatBytes(piece->bytes), " of device ", device_.facts.ordinal,
              " are lost: what fills them is enqueued, and when it ends cannot be told: ",
              FromAbsl(filled.status().message()));
    } else {
      MutexLock lock(mutex_);
      ReturnPiece(*piece);
    }
    GiveBack(Plain::kNone);
    return Describe(Annotate(filled.status(), doing));
  }
  MutexLock lock(mutex_);
  Block& block = blocks_[piece->begin];
  block.bytes = piece->bytes;
  block.uses.push_back(*std::move(filled));
  live_bytes_ += piece->bytes;
  return PointerTo(piece->begin);
}

// The event that passes with `work`, which enqueues something in the stream. An error after that sets `is_enqueued`.
absl::StatusOr<DeviceEvent> DeviceHeap::Enqueue(cuda::Stream stream,
                                                const std::function<absl::Status()>& work,
                                                bool* is_enqueued) {
  WEFT_ASSIGN_OR_RETURN(DeviceEvent done, DeviceEvent::Create(device_));
  WEFT_ASSIGN_OR_RETURN(const ContextScope scope, ContextScope::Enter(device_));
  WEFT_RETURN_IF_ERROR(work());
  *is_enqueued = true;
  WEFT_RETURN_IF_ERROR(done.Record(stream));
  return done;
}

// What is free, for who lacks memory.
absl::Status DeviceHeap::Describe(const absl::Status& failed) {
  if (ResultOf(failed) != WEFT_OUT_OF_MEMORY) return failed;
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  const absl::StatusOr<ContextScope> scope = ContextScope::Enter(device_);
  const bool known =
      scope.ok() && device_.driver->MemGetInfo(&free_bytes, &total_bytes) == cuda::kSuccess;
  MutexLock lock(mutex_);
  return MakeError(
      WEFT_OUT_OF_MEMORY, FieldsOf(failed),
      StrCat(FromAbsl(failed.message()), "; ",
             known ? StrCat(FormatBytes(free_bytes), " of ", FormatBytes(total_bytes), " are free")
                   : std::string("how much is free is not known"),
             ", and weft's blocks there have ", FormatBytes(live_bytes_)));
}

absl::StatusOr<DeviceHeap::Leaving> DeviceHeap::TakePiece(size_t bytes) {
  const bool shared = bytes <= kSmallBytesMax;
  const size_t wanted = RoundToAlignment(bytes);
  if (shared) {
    MutexLock lock(mutex_);
    if (std::optional<Leaving> piece = TakeGap(wanted)) return *std::move(piece);
  }
  WEFT_ASSIGN_OR_RETURN(DeviceChunk memory, MakeRoomFor(shared ? kSharedChunkBytes : wanted));
  MutexLock lock(mutex_);
  return AddChunk(std::move(memory), wanted, shared);
}

// A chunk, for which all goes back that has no blocks if it must.
absl::StatusOr<DeviceChunk> DeviceHeap::MakeRoomFor(size_t bytes) {
  for (int tries = 1;; ++tries) {
    const uint64_t given = CountGiven();
    absl::StatusOr<DeviceChunk> memory = MakeChunk(bytes);
    if (memory.ok() || ResultOf(memory.status()) != WEFT_OUT_OF_MEMORY || tries == kTriesMax)
      return memory;
    RetireAll();
    GiveBack(Plain::kAll);
    WaitForGivers();
    // Also what another thread gave back while this one asked.
    if (CountGiven() == given) return memory;
  }
}

uint64_t DeviceHeap::CountGiven() {
  MutexLock lock(mutex_);
  return given_;
}

// Other threads give back what they have taken from `retired_`.
void DeviceHeap::WaitForGivers() {
  MutexLock lock(mutex_);
  const uint64_t all = given_ + giving_;
  while (given_ < all && giving_ > 0)
    lock.Wait(has_given_);
}

std::optional<DeviceHeap::Leaving> DeviceHeap::TakeGap(size_t bytes) {
  const std::optional<Address> begin = gaps_.Take(bytes);
  if (!begin.has_value()) return std::nullopt;
  const auto chunk = std::prev(chunks_.upper_bound(*begin));
  if (spare_ == chunk->first) spare_.reset();
  ++chunk->second.blocks;
  return Leaving{.begin = *begin, .bytes = bytes};
}

DeviceHeap::Leaving DeviceHeap::AddChunk(DeviceChunk memory, size_t bytes, bool shared) {
  const Address begin = memory.begin();
  const Address end = begin + memory.bytes();
  if (!shared) bytes = memory.bytes();
  chunks_.emplace(begin, Chunk{.memory = std::move(memory), .shared = shared, .blocks = 1});
  if (begin + bytes < end) gaps_.Put({begin + bytes, end}, {begin, end});
  return Leaving{.begin = begin, .bytes = bytes};
}

void DeviceHeap::ReturnPiece(const Leaving& piece) {
  const auto chunk = std::prev(chunks_.upper_bound(piece.begin));
  const ChunkGaps::Range whole = {chunk->first, chunk->first + chunk->second.memory.bytes()};
  --chunk->second.blocks;
  if (chunk->second.shared) gaps_.Put({piece.begin, piece.begin + piece.bytes}, whole);
  if (chunk->second.blocks > 0) return;
  if (chunk->second.shared && !spare_.has_value()) {
    spare_ = chunk->first;
  } else {
    Retire(chunk);
  }
}

void DeviceHeap::Retire(std::map<Address, Chunk>::iterator chunk) {
  if (chunk->second.shared) {
    gaps_.TakeWhole({chunk->first, chunk->first + chunk->second.memory.bytes()});
  }
  retired_.push_back(std::move(chunk->second.memory));
  chunks_.erase(chunk);
}

// All that has no blocks.
void DeviceHeap::RetireAll() {
  MutexLock lock(mutex_);
  LookAtLeaving(leaving_.size());
  if (spare_.has_value()) {
    Retire(chunks_.find(*spare_));
    spare_.reset();
  }
}

absl::StatusOr<DeviceChunk> DeviceHeap::MakeChunk(size_t bytes) {
  if (!IsPlain()) {
    absl::StatusOr<DeviceChunk> mapped = DeviceChunk::Map(device_, bytes);
    {
      MutexLock lock(mutex_);
      if (mapped.ok() && !plain_.has_value()) plain_ = false;
      if (mapped.ok() || plain_ == false || !IsRefusal(mapped.status())) return mapped;
    }
    if (!DecidePlain(FromAbsl(mapped.status().message()))) return mapped;
  }
  return DeviceChunk::Allocate(device_, bytes);
}

bool DeviceHeap::IsPlain() {
  {
    MutexLock lock(mutex_);
    if (plain_.has_value()) return *plain_;
  }
  if (!device_.facts.virtual_memory) return DecidePlain("it has no virtual memory management");
  if (device_.facts.posix_descriptors) return false;
  return DecidePlain("its memory has no descriptors (POSIX) that other processes could map");
}

// The first refusal is that of all; false if a mapping was first.
bool DeviceHeap::DecidePlain(std::string_view why) {
  {
    MutexLock lock(mutex_);
    if (plain_.has_value()) return *plain_;
    plain_ = true;
  }
  LogInfo("memory of device ", device_.facts.ordinal, " comes from cuMemAlloc: ", why);
  return true;
}

void DeviceHeap::LookAtLeaving(size_t count_max) {
  for (size_t count = std::min(leaving_.size(), count_max); count > 0; --count) {
    Leaving piece = std::move(leaving_.front());
    leaving_.pop_front();
    if (HavePassed(&piece.uses)) {
      ReturnPiece(piece);
    } else {
      leaving_.push_back(std::move(piece));
    }
  }
}

void DeviceHeap::GiveBack(Plain plain) {
  std::vector<DeviceChunk> chunks;
  {
    MutexLock lock(mutex_);
    LookAtLeaving(kLookedAtMax);
    if (plain_ == true && (plain == Plain::kNone || (plain == Plain::kIfMuch && !IsMuchRetired())))
      return;
    chunks.swap(retired_);
    giving_ += chunks.size();
  }
  for (DeviceChunk& chunk : chunks) {
    const absl::Status given = chunk.GiveBack();
    if (!given.ok()) LogWarn("giving memory back to CUDA: ", FromAbsl(given.message()));
    MutexLock lock(mutex_);
    --giving_;
    if (chunk.empty()) {
      ++given_;
    } else {
      retired_.push_back(std::move(chunk));
    }
    has_given_.notify_all();
  }
}

bool DeviceHeap::IsMuchRetired() const {
  const size_t bytes =
      std::accumulate(retired_.begin(), retired_.end(), size_t{0},
                      [](size_t sum, const DeviceChunk& chunk) { return sum + chunk.bytes(); });
  return bytes > live_bytes_ / 4;
}

DeviceHeap::Blocks::const_iterator DeviceHeap::BlockOf(const void* pointer) const {
  const Address address = DeviceAddress(pointer);
  auto block = blocks_.upper_bound(address);
  if (block == blocks_.begin()) return blocks_.end();
  --block;
  return address - block->first < block->second.bytes ? block : blocks_.end();
}

std::optional<DeviceHeap::Place> DeviceHeap::PlaceOf(const void* pointer) const {
  MutexLock lock(mutex_);
  const auto block = BlockOf(pointer);
  if (block == blocks_.end()) return std::nullopt;
  return Place{.begin = PointerTo(block->first),
               .bytes = block->second.bytes,
               .owners = block->second.owners};
}

absl::StatusOr<void*> DeviceHeap::AddOwner(const void* pointer) {
  MutexLock lock(mutex_);
  const auto block = BlockOf(pointer);
  if (block == blocks_.end()) {
    return MakeError(
        WEFT_INVALID_ARGUMENT,
        fmt::format("keeping {}: no block of device {} holds it", pointer, device_.facts.ordinal));
  }
  ++blocks_[block->first].owners;
  return PointerTo(block->first);
}

absl::Status DeviceHeap::AddUse(const void* pointer, DeviceEvent event) {
  MutexLock lock(mutex_);
  const auto block = BlockOf(pointer);
  if (block == blocks_.end()) {
    return MakeError(WEFT_INVALID_ARGUMENT, fmt::format("using {}: no block of device {} holds it",
                                                        pointer, device_.facts.ordinal));
  }
  std::vector<DeviceEvent>& uses = blocks_[block->first].uses;
  (void)HavePassed(&uses);
  uses.push_back(std::move(event));
  return absl::OkStatus();
}

absl::Status DeviceHeap::Free(void* pointer, std::optional<DeviceEvent> after) {
  {
    MutexLock lock(mutex_);
    const auto block = blocks_.find(DeviceAddress(pointer));
    if (block == blocks_.end()) {
      return MakeError(WEFT_INVALID_ARGUMENT,
                       fmt::format("freeing {}: it is not a block of device {}", pointer,
                                   device_.facts.ordinal));
    }
    std::vector<DeviceEvent>& uses = block->second.uses;
    const bool passed = HavePassed(&uses) && !after.has_value();
    if (after.has_value()) uses.push_back(*std::move(after));
    if (--block->second.owners > 0) return absl::OkStatus();
    Leaving piece = {.begin = block->first, .bytes = block->second.bytes, .uses = std::move(uses)};
    live_bytes_ -= piece.bytes;
    blocks_.erase(block);
    if (passed) {
      ReturnPiece(piece);
    } else {
      leaving_.push_back(std::move(piece));
    }
  }
  GiveBack(Plain::kNone);
  return absl::OkStatus();
}

}  // namespace weft
