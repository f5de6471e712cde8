// One block of a context's memory, from the symmetric heap or from the caller's allocator.
//
//   const BlockSource source{.allocator = config.allocator};
//   WEFT_ASSIGN_OR_RETURN(Block block, Block::Allocate(source, WEFT_SHARD_TIER_PARAMS, bytes));
//   std::memcpy(block.data(), ...);
//
// Collectives reach the symmetric heap directly and any other memory through copies; nothing else
// depends on where a block is from.
//
// Thread-safety: a value, move only. The destructor gives the block back, on the thread that runs it.
#pragma once

#include <cstddef>

#include "weft/shard_memory.h"

#include "absl/status/statusor.h"

namespace weft {

struct BlockSource {
  weft_shard_allocator_t allocator = {};  // allocate is nullptr: the symmetric heap
  // Blocks that are released are filled with 0xff, so that whoever goes on reading it reads NaN.
  bool poison = false;
};

// "optimizer state", for messages.
const char* TierName(weft_shard_tier_t tier);

class Block {
 public:
  static constexpr size_t kAlignment = 64;

  // Zeroed. For 0 bytes it is empty, and nobody is asked. OUT_OF_MEMORY, and SYSTEM_ERROR of the heap, say how much was
  // asked for; in messages the caller's allocator is named.
  static absl::StatusOr<Block> Allocate(const BlockSource& source, weft_shard_tier_t tier,
                                        size_t bytes);

  Block() = default;
  ~Block();
  Block(Block&& other) noexcept;
  Block& operator=(Block&& other) noexcept;

  // nullptr if empty.
  std::byte* data() const { return data_; }

  size_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
  weft_shard_tier_t tier_ = WEFT_SHARD_TIER_PARAMS;
  weft_shard_allocator_t allocator_ = {};  // as in BlockSource
};

}  // namespace weft
