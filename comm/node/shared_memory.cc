// Blocks that all ranks of a group have: taken from the heap of rank 0, which all have mapped, and agreed upon by
// one small all_gather of the group, as the segment of a split is.
//
// Errors that all ranks can see in what was gathered leave the group as it was. If the gathering itself fails, rank
// 0 cannot know who has the block: it keeps it until the group is closed.
#include <utility>
#include <vector>

#include "base/status.h"
#include "comm/node/node_group.h"
#include "comm/node/shared_blocks.h"
#include "fmt/format.h"

namespace weft {

// What a rank says of a block to the others.
struct SharedOffer {
  enum Call : uint32_t { kAllocate = 0x616c6c6f, kFree = 0x66726565 };

  uint32_t call;
  int32_t result;   // weft_result_t of what the rank had to do
  uint64_t bytes;   // of kAllocate
  uint64_t offset;  // in the heap of rank 0: rank 0's of kAllocate, every rank's of kFree
};

namespace {

constexpr uint32_t kOfferPurpose =
    0x73686d6f;  // in the signature: no call of a user's is taken for it

const char* NameOf(uint32_t call) {
  return call == SharedOffer::kAllocate ? "weft_mem_alloc_shared"
         : call == SharedOffer::kFree   ? "weft_mem_free_shared"
                                        : "something else";
}

// The first thing in which ranks differ or which one could not do: the same on all ranks.
absl::Status Compare(const std::vector<SharedOffer>& offers, const std::string& group) {
  for (size_t rank = 0; rank < offers.size(); ++rank) {
    const SharedOffer& first = offers[0];
    const SharedOffer& other = offers[rank];
    const ErrorFields fields{.rank = static_cast<int32_t>(rank), .group = group};
    if (other.call != first.call) {
      return MakeError(WEFT_MISMATCH, fields,
                       fmt::format("rank {} of group {} called {}, rank 0 {}", rank, group,
                                   NameOf(other.call), NameOf(first.call)));
    }
    if (other.result != WEFT_SUCCESS) {
      return MakeError(WEFT_REMOTE_ERROR, fields,
                       fmt::format("rank {} of group {} {}; its own error says why", rank, group,
                                   first.call == SharedOffer::kAllocate
                                       ? "has no memory for it"
                                       : "passed what is no block of the group"));
    }
    if (other.bytes != first.bytes) {
      return MakeError(WEFT_MISMATCH, fields,
                       fmt::format("rank {} of group {} asks for {} bytes, rank 0 for {}", rank,
                                   group, other.bytes, first.bytes));
    }
    if (first.call == SharedOffer::kFree && other.offset != first.offset) {
      return MakeError(
          WEFT_MISMATCH, fields,
          fmt::format("rank {} of group {} frees another block than rank 0", rank, group));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<SharedOffer>> NodeGroup::ExchangeOffers(const SharedOffer& mine) {
  std::vector<SharedOffer> offers(static_cast<size_t>(state_.size));
  Collective gather{
      .kind = OpKind::kAllGather, .count = sizeof(SharedOffer), .purpose = {.salt = kOfferPurpose}};
  gather.in = &mine;
  gather.out = offers.data();
  WEFT_RETURN_IF_ERROR(Run(gather));
  return offers;
}

// This rank's view of a block; rank 0's own is not its caller's to free by weft_mem_free from now on.
void NodeGroup::HoldShared(void* memory, size_t bytes) {
  if (state_.rank == 0) heap_.SetShared(memory, true);
  ProcessSharedBlocks().Add(memory, bytes, state_.peers[0]);
  MutexLock lock(shared_mutex_);
  shared_[memory] = bytes;
}

void NodeGroup::DropShared(void* memory) {
  {
    MutexLock lock(shared_mutex_);
    if (shared_.erase(memory) == 0) return;
  }
  ProcessSharedBlocks().Remove(memory);
  if (state_.rank != 0) return;
  heap_.SetShared(memory, false);
  (void)heap_.Free(memory);
}

absl::StatusOr<void*> NodeGroup::AllocateShared(size_t bytes) {
  if (!Enter()) return Closed();
  absl::StatusOr<void*> memory = AllocateSharedAsVisitor(bytes);
  Leave();
  return memory;
}

absl::StatusOr<void*> NodeGroup::AllocateSharedAsVisitor(size_t bytes) {
  SharedOffer mine{SharedOffer::kAllocate, WEFT_SUCCESS, bytes, 0};
  absl::StatusOr<void*> block = nullptr;
  if (state_.rank == 0) {
    block = heap_.Allocate(bytes);
    if (block.ok()) {
      mine.offset = static_cast<uint64_t>(static_cast<char*>(*block) - state_.peers[0]->base());
      HoldShared(*block, bytes);
    } else {
      mine.result = ResultOf(block.status());
    }
  }
  WEFT_ASSIGN_OR_RETURN(const std::vector<SharedOffer> offers, ExchangeOffers(mine));
  WEFT_RETURN_IF_ERROR(block.status());
  if (const absl::Status alike = Compare(offers, options_.name); !alike.ok()) {
    if (state_.rank == 0) DropShared(*block);
    return alike;
  }
  if (state_.rank == 0) return block;
  char* const memory = state_.peers[0]->At(offers[0].offset, bytes);
  if (memory == nullptr) {
    return MakeError(WEFT_CORRUPT, {.rank = 0, .group = options_.name},
                     fmt::format("rank 0 of group {} offered a block at {} + {} bytes, outside its "
                                 "heap",
                                 options_.name, offers[0].offset, bytes));
  }
  HoldShared(memory, bytes);
  return memory;
}

absl::Status NodeGroup::FreeShared(void* memory) {
  if (!Enter()) return Closed();
  const absl::Status freed = FreeSharedAsVisitor(memory);
  Leave();
  return freed;
}

absl::Status NodeGroup::FreeSharedAsVisitor(void* memory) {
  SharedOffer mine{SharedOffer::kFree, WEFT_SUCCESS, 0, 0};
  {
    MutexLock lock(shared_mutex_);
    if (shared_.find(memory) == shared_.end()) {
      mine.result = WEFT_INVALID_ARGUMENT;
    } else {
      mine.offset = static_cast<uint64_t>(static_cast<char*>(memory) - state_.peers[0]->base());
    }
  }
  WEFT_ASSIGN_OR_RETURN(const std::vector<SharedOffer> offers, ExchangeOffers(mine));
  if (mine.result != WEFT_SUCCESS) {
    return MakeError(
        WEFT_INVALID_ARGUMENT, {.group = options_.name},
        fmt::format("freeing {}: no shared block of group {} begins there", memory, options_.name));
  }
  WEFT_RETURN_IF_ERROR(Compare(offers, options_.name));
  DropShared(memory);
  return absl::OkStatus();
}

// For Close(): what was not freed. Rank 0's blocks go when the others have left; the caller of any rank may not
// use its view any more.
std::vector<void*> NodeGroup::TakeShared() {
  std::map<void*, size_t> left;
  {
    MutexLock lock(shared_mutex_);
    left.swap(shared_);
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

uint64_t NodeGroup::SharedBytes() const {
  if (state_.rank != 0) return 0;
  MutexLock lock(shared_mutex_);
  uint64_t sum = 0;
  for (const auto& [memory, bytes] : shared_)
    sum += bytes;
  return sum;
}

}  // namespace weft
