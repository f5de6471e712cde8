// Every call is one all_gather of what each rank asks for and could do; after it all ranks compare the same offers and so come
// to the same end, without a second exchange. Rank 0 takes its block before it knows whether the others agree, because the
// offset is part of what is gathered.
#include "comm/node/shared_memory.h"

#include <utility>
#include <vector>

#include "base/status.h"
#include "comm/node/shared_blocks.h"
#include "fmt/format.h"

namespace weft {

// What a rank says of a block to the others.
struct SharedMemory::Offer {
  uint32_t call;
  int32_t result;   // weft_result_t of what the rank had to do
  uint64_t bytes;   // of kAllocate
  uint64_t offset;  // in the heap of rank 0: rank 0's of kAllocate, every rank's of kFree
};

namespace {

// What a rank has called.
constexpr uint32_t kAllocate = 0x616c6c6f;
constexpr uint32_t kFree = 0x66726565;

constexpr uint32_t kOfferSalt =
    0x73686d6f;  // in the signature: no call of a user's is taken for it

Purpose::Kind PurposeOf(uint32_t call) {
  return call == kAllocate ? Purpose::Kind::kAllocShared : Purpose::Kind::kFreeShared;
}

const char* NameOf(uint32_t call) {
  return call == kAllocate ? "weft_mem_alloc_shared"
         : call == kFree   ? "weft_mem_free_shared"
                           : "something else";
}

}  // namespace

// The first thing in which ranks differ or which one could not do: the same on all ranks.
absl::Status SharedMemory::Compare(const std::vector<Offer>& offers) const {
  const std::string& group = group_name_;
  const int first_rank = state_.GroupRank(0);
  for (size_t place = 0; place < offers.size(); ++place) {
    const Offer& first = offers[0];
    const Offer& other = offers[place];
    const ErrorFields fields{.rank = static_cast<int32_t>(place), .group = group};
    const int rank = state_.GroupRank(static_cast<int>(place));
    if (other.call != first.call) {
      return MakeError(WEFT_MISMATCH, fields,
                       fmt::format("rank {} of group {} called {}, rank {} {}", rank, group,
                                   NameOf(other.call), first_rank, NameOf(first.call)));
    }
    if (other.result != WEFT_SUCCESS) {
      return MakeError(
          WEFT_REMOTE_ERROR, fields,
          fmt::format("rank {} of group {} {}; its own error says why", rank, group,
                      first.call == kAllocate ? "has no memory for it"
                                              : "passed what is no block of the group"));
    }
    if (other.bytes != first.bytes) {
      return MakeError(WEFT_MISMATCH, fields,
                       fmt::format("rank {} of group {} asks for {} bytes, rank {} for {}", rank,
                                   group, other.bytes, first_rank, first.bytes));
    }
    if (first.call == kFree && other.offset != first.offset) {
      return MakeError(WEFT_MISMATCH, fields,
                       fmt::format("rank {} of group {} frees another block than rank {}", rank,
                                   group, first_rank));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<SharedMemory::Offer>> SharedMemory::Exchange(const Offer& mine) {
  std::vector<Offer> offers(static_cast<size_t>(state_.size));
  Collective gather{.kind = OpKind::kAllGather,
                    .count = sizeof(Offer),
                    .purpose = {.signature_salt = kOfferSalt,
                                .record = PackPurpose({.kind = PurposeOf(mine.call)})}};
  gather.in = &mine;
  gather.out = offers.data();
  WEFT_RETURN_IF_ERROR(group_.Run(gather));
  return offers;
}

// This rank's view of a block; rank 0's own is not its caller's to free by weft_mem_free from now on.
void SharedMemory::Hold(void* memory, size_t bytes) {
  if (state_.rank == 0) heap_.SetShared(memory, true);
  ProcessSharedBlocks().Add(memory, bytes, state_.peers[0]);
  MutexLock lock(mutex_);
  blocks_[memory] = bytes;
}

void SharedMemory::Drop(void* memory) {
  {
    MutexLock lock(mutex_);
    if (blocks_.erase(memory) == 0) return;
  }
  ProcessSharedBlocks().Remove(memory);
  if (state_.rank != 0) return;
  heap_.SetShared(memory, false);
  (void)heap_.Free(memory);
}

absl::StatusOr<void*> SharedMemory::Allocate(size_t bytes) {
  Offer mine{kAllocate, WEFT_SUCCESS, bytes, 0};
  absl::StatusOr<void*> block = nullptr;
  if (state_.rank == 0) {
    block = heap_.Allocate(bytes);
    if (block.ok()) {
      mine.offset = static_cast<uint64_t>(static_cast<char*>(*block) - state_.peers[0]->base());
      Hold(*block, bytes);
    } else {
      mine.result = ResultOf(block.status());
    }
  }
  WEFT_ASSIGN_OR_RETURN(const std::vector<Offer> offers, Exchange(mine));
  WEFT_RETURN_IF_ERROR(block.status());
  if (const absl::Status alike = Compare(offers); !alike.ok()) {
    if (state_.rank == 0) Drop(*block);
    return alike;
  }
  if (state_.rank == 0) return block;
  char* const memory = state_.peers[0]->At(offers[0].offset, bytes);
  if (memory == nullptr) {
    return MakeError(WEFT_CORRUPT, {.rank = 0, .group = group_name_},
                     fmt::format("rank 0 of group {} offered a block at {} + {} bytes, outside its "
                                 "heap",
                                 group_name_, offers[0].offset, bytes));
  }
  Hold(memory, bytes);
  return memory;
}

absl::Status SharedMemory::Free(void* memory) {
  Offer mine{kFree, WEFT_SUCCESS, 0, 0};
  {
    MutexLock lock(mutex_);
    if (blocks_.find(memory) == blocks_.end()) {
      mine.result = WEFT_INVALID_ARGUMENT;
    } else {
      mine.offset = static_cast<uint64_t>(static_cast<char*>(memory) - state_.peers[0]->base());
    }
  }
  WEFT_ASSIGN_OR_RETURN(const std::vector<Offer> offers, Exchange(mine));
  if (mine.result != WEFT_SUCCESS) {
    return MakeError(
        WEFT_INVALID_ARGUMENT, {.group = group_name_},
        fmt::format("freeing {}: no shared block of group {} begins there", memory, group_name_));
  }
  WEFT_RETURN_IF_ERROR(Compare(offers));
  Drop(memory);
  return absl::OkStatus();
}

std::vector<void*> SharedMemory::TakeAll() {
  std::map<void*, size_t> left;
  {
    MutexLock lock(mutex_);
    left.swap(blocks_);
  }
  std::vector<void*> blocks;
  for (const auto& [memory, bytes] : left) {
    ProcessSharedBlocks().Remove(memory);
    if (state_.rank != 0) continue;
    heap_.SetShared(memory, false);
    blocks.push_back(memory);
  }
  return blocks;
}

uint64_t SharedMemory::bytes() const {
  if (state_.rank != 0) return 0;
  MutexLock lock(mutex_);
  uint64_t sum = 0;
  for (const auto& [memory, bytes] : blocks_)
    sum += bytes;
  return sum;
}

}  // namespace weft
