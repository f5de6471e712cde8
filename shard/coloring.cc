#include "shard/coloring.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace weft {
namespace {

bool Overlap(const Interval& a, const Interval& b) {
  return a.begin <= b.end && b.begin <= a.end;
}

// By interval: those that are alive at a time with it.
using Contemporaries = std::vector<std::vector<size_t>>;

Contemporaries FindContemporaries(const std::vector<Interval>& intervals,
                                  const std::vector<size_t>& by_begin) {
  Contemporaries found(intervals.size());
  std::vector<size_t> alive;
  for (const size_t index : by_begin) {
    const auto over = [&](size_t other) {
      return !Overlap(intervals[other], intervals[index]);
    };
    alive.erase(std::remove_if(alive.begin(), alive.end(), over), alive.end());
    for (const size_t other : alive) {
      found[other].push_back(index);
      found[index].push_back(other);
    }
    alive.push_back(index);
  }
  return found;
}

// The lowest offset at which `interval` fits beside those of its contemporaries that have a place.
size_t LowestOffset(const std::vector<Interval>& intervals, const std::vector<size_t>& together,
                    const std::vector<bool>& placed, const Interval& interval) {
  std::vector<std::pair<size_t, size_t>> taken;
  for (const size_t other : together) {
    const Interval& at = intervals[other];
    if (placed[other]) taken.emplace_back(at.offset, at.offset + at.bytes);
  }
  std::sort(taken.begin(), taken.end());
  size_t offset = 0;
  for (const auto& [begin, end] : taken) {
    if (offset + interval.bytes <= begin) break;
    offset = std::max(offset, end);
  }
  return offset;
}

size_t PlaceInOrder(const std::vector<size_t>& order, const Contemporaries& together,
                    std::vector<Interval>& intervals) {
  std::vector<bool> placed(intervals.size());
  size_t bytes = 0;
  for (const size_t index : order) {
    Interval& interval = intervals[index];
    interval.offset = LowestOffset(intervals, together[index], placed, interval);
    bytes = std::max(bytes, interval.offset + interval.bytes);
    placed[index] = true;
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
  const Contemporaries together = FindContemporaries(intervals, order);
  const size_t earliest_bytes = PlaceInOrder(order, together, earliest);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return intervals[a].bytes > intervals[b].bytes; });
  const size_t largest_bytes = PlaceInOrder(order, together, intervals);
  if (earliest_bytes >= largest_bytes) return largest_bytes;
  intervals = std::move(earliest);
  return earliest_bytes;
}

}  // namespace weft
