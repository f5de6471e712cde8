#include "shard/layout/pool.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "base/text.h"

namespace weft {

absl::Status Pool::Reserve(size_t bytes) {
  WEFT_CHECK(taken_.empty() && spilled_.empty());
  ReleaseGivenBack();
  spilled_bytes_max_ = 0;
  if (bytes <= block_.bytes()) return absl::OkStatus();
  absl::StatusOr<Block> block = Block::Allocate(source_, WEFT_SHARD_TIER_POOL, bytes);
  if (!block.ok()) {
    return Annotate(
        block.status(),
        StrCat("allocating ", bytes, " bytes for parameters and gradients that are gathered: "));
  }
  block_ = *std::move(block);
  Poison(block_.data(), block_.bytes());
  return absl::OkStatus();
}

void Pool::Poison(std::byte* data, size_t bytes) const {
  if (source_.poison) std::memset(data, 0xff, bytes);
}

bool Pool::IsFree(size_t offset, size_t bytes) const {
  if (offset + bytes > block_.bytes()) return false;
  const auto after = taken_.lower_bound(offset);
  if (after != taken_.end() && after->first < offset + bytes) return false;
  return after == taken_.begin() || std::prev(after)->second <= offset;
}

std::byte* Pool::TakeAt(size_t offset, size_t bytes) {
  WEFT_CHECK(bytes > 0);
  if (!IsFree(offset, bytes)) return nullptr;
  taken_.emplace(offset, offset + bytes);
  return block_.data() + offset;
}

size_t Pool::LowestFree(size_t bytes) const {
  size_t offset = 0;
  for (const auto& [begin, end] : taken_) {
    if (offset + bytes <= begin) break;
    offset = end;
  }
  return offset + bytes <= block_.bytes() ? offset : kNowhere;
}

absl::StatusOr<std::byte*> Pool::TakeNear(size_t offset, size_t bytes) {
  std::byte* const place = TakeAt(offset, bytes);
  if (place != nullptr) return place;
  return Take(bytes);
}

bool Pool::HasRoom(size_t bytes) const {
  return LowestFree(bytes) != kNowhere;
}

absl::StatusOr<std::byte*> Pool::Take(size_t bytes) {
  const size_t offset = LowestFree(bytes);
  if (offset != kNowhere) return TakeAt(offset, bytes);
  ReleaseGivenBack();
  absl::StatusOr<Block> block = Block::Allocate(source_, WEFT_SHARD_TIER_POOL, bytes);
  if (!block.ok()) {
    return Annotate(block.status(), StrCat("allocating ", bytes,
                                           " bytes outside the plan, as the order of calls "
                                           "is not the recorded one: "));
  }
  std::byte* const data = block->data();
  Poison(data, bytes);
  spilled_bytes_ += bytes;
  spilled_bytes_max_ = std::max(spilled_bytes_max_, spilled_bytes_);
  spilled_.emplace(data, *std::move(block));
  return data;
}

void Pool::GiveBack(const std::byte* place) {
  const auto spilled = spilled_.find(place);
  if (spilled != spilled_.end()) {
    Block& block = spilled->second;
    Poison(block.data(), block.bytes());
    spilled_bytes_ -= block.bytes();
    given_back_.push_back(std::move(block));
    spilled_.erase(spilled);
    return;
  }
  const auto taken = taken_.find(static_cast<size_t>(place - block_.data()));
  WEFT_CHECK(taken != taken_.end());
  Poison(block_.data() + taken->first, taken->second - taken->first);
  taken_.erase(taken);
}

}  // namespace weft
