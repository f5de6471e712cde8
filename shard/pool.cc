#include "shard/pool.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "base/text.h"

namespace weft {

absl::Status Pool::Reserve(size_t bytes) {
  WEFT_CHECK(taken_.empty() && spilled_.empty());
  spilled_bytes_max_ = 0;
  if (bytes <= block_.bytes()) return absl::OkStatus();
  absl::StatusOr<HeapBlock> block = HeapBlock::Allocate(bytes);
  if (!block.ok()) {
    return Annotate(
        block.status(),
        StrCat("allocating ", bytes, " bytes for parameters and gradients that are gathered: "));
  }
  block_ = *std::move(block);
  return absl::OkStatus();
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
  absl::StatusOr<HeapBlock> block = HeapBlock::Allocate(bytes);
  if (!block.ok()) {
    return Annotate(block.status(), StrCat("allocating ", bytes,
                                           " bytes outside the plan, as the order of calls "
                                           "is not the recorded one: "));
  }
  std::byte* const data = block->data();
  spilled_bytes_ += bytes;
  spilled_bytes_max_ = std::max(spilled_bytes_max_, spilled_bytes_);
  spilled_.emplace(data, *std::move(block));
  return data;
}

void Pool::GiveBack(const std::byte* place) {
  const auto spilled = spilled_.find(place);
  if (spilled != spilled_.end()) {
    spilled_bytes_ -= spilled->second.bytes();
    spilled_.erase(spilled);
    return;
  }
  const size_t erased = taken_.erase(static_cast<size_t>(place - block_.data()));
  WEFT_CHECK(erased == 1);
}

}  // namespace weft
