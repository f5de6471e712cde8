#include "comm/device/memory/chunk_gaps.h"

#include <iterator>

#include "base/check.h"

namespace weft {

void ChunkGaps::Add(Range gap) {
  by_begin_.emplace(gap.begin, gap.end);
  by_size_.emplace(gap.end - gap.begin, gap.begin);
}

void ChunkGaps::Remove(std::map<uint64_t, uint64_t>::iterator gap) {
  by_size_.erase({gap->second - gap->first, gap->first});
  by_begin_.erase(gap);
}

void ChunkGaps::Put(Range gap, Range within) {
  const auto next = by_begin_.lower_bound(gap.begin);
  if (next != by_begin_.end() && next->first == gap.end && gap.end < within.end) {
    gap.end = next->second;
    Remove(next);
  }
  const auto after = by_begin_.lower_bound(gap.begin);
  if (after != by_begin_.begin() && gap.begin > within.begin) {
    const auto before = std::prev(after);
    if (before->second == gap.begin) {
      gap.begin = before->first;
      Remove(before);
    }
  }
  Add(gap);
}

std::optional<uint64_t> ChunkGaps::Take(uint64_t bytes) {
  const auto found = by_size_.lower_bound({bytes, 0});
  if (found == by_size_.end()) return std::nullopt;
  const auto gap = by_begin_.find(found->second);
  const Range rest = {.begin = gap->first + bytes, .end = gap->second};
  const uint64_t begin = gap->first;
  Remove(gap);
  if (rest.begin < rest.end) Add(rest);
  return begin;
}

void ChunkGaps::TakeWhole(Range gap) {
  const auto found = by_begin_.find(gap.begin);
  WEFT_CHECK(found != by_begin_.end() && found->second == gap.end);
  Remove(found);
}

}  // namespace weft
