#include "shard/layout/block.h"

#include <cstdint>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "base/text.h"
#include "comm/node/heap.h"
#include "fmt/format.h"

namespace weft {
namespace {

absl::StatusOr<void*> AskCaller(const weft_shard_allocator_t& allocator, weft_shard_tier_t tier,
                                size_t bytes) {
  const auto refuse = [&](std::string_view what) {
    return MakeError(WEFT_OUT_OF_MEMORY,
                     StrCat("the context's allocator, asked for ", bytes, " bytes of tier ",
                            TierName(tier), ", gave ", what));
  };
  if (bytes > PTRDIFF_MAX) return refuse("nothing, as an address space has less");
  void* memory = nullptr;
  try {
    memory = allocator.allocate(bytes, Block::kAlignment, tier, allocator.user);
  } catch (...) {  // the other ranks wait to hear whether there is memory
    return refuse("an exception; let it return NULL");
  }
  if (memory == nullptr) return refuse("NULL");
  if (reinterpret_cast<uintptr_t>(memory) % Block::kAlignment != 0) {
    allocator.release(memory, bytes, tier, allocator.user);
    return refuse(fmt::format("{}, which is not a multiple of {}", memory, Block::kAlignment));
  }
  std::memset(memory, 0, bytes);
  return memory;
}

}  // namespace

const char* TierName(weft_shard_tier_t tier) {
  switch (tier) {
    case WEFT_SHARD_TIER_PARAMS:
      return "params";
    case WEFT_SHARD_TIER_GRADIENTS:
      return "gradients";
    case WEFT_SHARD_TIER_OPTIMIZER:
      return "optimizer";
    case WEFT_SHARD_TIER_POOL:
      return "pool";
  }
  return "unknown";
}

absl::StatusOr<Block> Block::Allocate(const BlockSource& source, weft_shard_tier_t tier,
                                      size_t bytes) {
  Block block;
  if (bytes == 0) return block;
  const bool callers = source.allocator.allocate != nullptr;
  WEFT_ASSIGN_OR_RETURN(void* const memory, callers ? AskCaller(source.allocator, tier, bytes)
                                                    : ProcessHeap().Allocate(bytes));
  block.data_ = static_cast<std::byte*>(memory);
  block.bytes_ = bytes;
  block.tier_ = tier;
  block.allocator_ = source.allocator;
  return block;
}

Block::~Block() {
  if (data_ == nullptr) return;
  if (allocator_.release != nullptr) {
    allocator_.release(data_, bytes_, tier_, allocator_.user);
    return;
  }
  const absl::Status freed = ProcessHeap().Free(data_);
  WEFT_CHECK(freed.ok() || ResultOf(freed) == WEFT_FORKED);  // in a child it stays the parent's
}

Block::Block(Block&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      tier_(other.tier_),
      allocator_(other.allocator_) {}

Block& Block::operator=(Block&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(tier_, other.tier_);
  std::swap(allocator_, other.allocator_);
  return *this;
}

}  // namespace weft
