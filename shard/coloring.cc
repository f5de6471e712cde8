#include "shard/coloring.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace weft {
namespace {

bool Overlap(const Interval& a, const Interval& b) {
  return a.begin <= b.end && b.begin <= a.end;
}

// The lowest offset at which `interval` fits beside those in `placed`.
size_t LowestOffset(const std::vector<Interval>& intervals, const std::vector<size_t>& placed,
                    const Interval& interval) {
  std::vector<std::pair<size_t, size_t>> taken;
  for (const size_t other : placed) {
    const Interval& at = intervals[other];
    if (Overlap(at, interval)) taken.emplace_back(at.offset, at.offset + at.bytes);
  }
  std::sort(taken.begin(), taken.end());
  size_t offset = 0;
  for (const auto& [begin, end] : taken) {
    if (offset + interval.bytes <= begin) break;
    offset = std::max(offset, end);
  }
  return offset;
}

size_t PlaceInOrder(const std::vector<size_t>& order, std::vector<Interval>& intervals) {
  std::vector<size_t> placed;
  size_t bytes = 0;
  for (const size_t index : order) {
    Interval& interval = intervals[index];
    interval.offset = LowestOffset(intervals, placed, interval);
    bytes = std::max(bytes, interval.offset + interval.bytes);
    placed.push_back(index);
  }
  return bytes;
}

}  // namespace

size_t Color(std::vector<Interval>& intervals) {
  std::vector<size_t> order(intervals.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::vector<Interval> earliest = intervals;
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::tie(intervals[a].begin, a) < std::tie(intervals[b].begin, b);
  });
  const size_t earliest_bytes = PlaceInOrder(order, earliest);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return intervals[a].bytes > intervals[b].bytes; });
  const size_t largest_bytes = PlaceInOrder(order, intervals);
  if (earliest_bytes >= largest_bytes) return largest_bytes;
  intervals = std::move(earliest);
  return earliest_bytes;
}

}  // namespace weft
