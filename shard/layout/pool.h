// Memory for params and gradients that are unsharded only for a time: one block.
//
//   Pool pool;
//   WEFT_RETURN_IF_ERROR(pool.Reserve(schedule.pool_bytes));
//   std::byte* const place = pool.TakeAt(offset, bytes);          // nullptr: taken
//   WEFT_ASSIGN_OR_RETURN(std::byte* const other, pool.Take(bytes));
//   pool.GiveBack(place);
//
// A schedule takes places at offsets that it has worked out; a step that leaves its schedule takes the lowest
// that is free, and blocks of its own when none is. These are released by ReleaseGivenBack: a place may be given back by
// a thread that completes an operation, but the memory's owner is called from threads that call weft.
//
// With BlockSource::poison all that is not taken holds 0xff.
//
// Thread-safety: none of its own; the context's mutex guards it.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shard/layout/block.h"

namespace weft {

class Pool {
 public:
  // Where memory comes from, before any was taken; the symmetric heap otherwise.
  void SetSource(const BlockSource& source) { source_ = source; }

  // Makes the block at least this large. Nothing is taken. OUT_OF_MEMORY leaves it as it was.
  absl::Status Reserve(size_t bytes);

  // bytes > 0 for both.
  std::byte* TakeAt(size_t offset, size_t bytes);
  // At the offset if that is free, else as Take.
  absl::StatusOr<std::byte*> TakeNear(size_t offset, size_t bytes);
  // Never nullptr. OUT_OF_MEMORY if there is no room and no block either.
  absl::StatusOr<std::byte*> Take(size_t bytes);
  bool IsFree(size_t offset, size_t bytes) const;
  // True if Take would not need a block of its own.
  bool HasRoom(size_t bytes) const;
  void GiveBack(const std::byte* place);

  // Releases blocks of their own that were given back.
  void ReleaseGivenBack() { given_back_.clear(); }

  size_t bytes() const { return block_.bytes(); }

  // The most bytes in blocks of their own since Reserve, or the last of these calls.
  void CountSpilledAnew() { spilled_bytes_max_ = spilled_bytes_; }

  size_t spilled_bytes_max() const { return spilled_bytes_max_; }

 private:
  static constexpr size_t kNowhere = ~size_t{0};

  size_t LowestFree(size_t bytes) const;
  void Poison(std::byte* data, size_t bytes) const;

  BlockSource source_;
  Block block_;
  std::map<size_t, size_t> taken_;  // offset, end
  std::map<const std::byte*, Block> spilled_;
  std::vector<Block> given_back_;
  size_t spilled_bytes_ = 0;
  size_t spilled_bytes_max_ = 0;
};

}  // namespace weft
