// Gives intervals of time places in one block of memory, so that no two that are alive together overlap.
//
//   std::vector<Interval> intervals = {{0, 4, 1024, 0}, {2, 6, 512, 0}};
//   const size_t bytes = PackIntervals(intervals);      // sets the offsets
//
// Thread-safety: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft {

struct Interval {
  int64_t begin = 0;  // both included, from 0
  int64_t end = 0;
  size_t bytes = 0;
  size_t offset = 0;
};

// The most bytes that are alive at a time: what no placing can go below.
size_t MostAlive(const std::vector<Interval>& intervals);

// Tries earliest first and largest first, each to the lowest offset that is free all the time, keeps the better and
// returns how many bytes it takes. O(n log n) for the first; the second, which looks at all pairs that are alive
// together, is left out where the first is as good as any, or there are more than kPairsMax. Who only asks, perhaps
// often, whether `enough` bytes suffice gets no better answer than that needs, from kAskedPairsMax.
size_t PackIntervals(std::vector<Interval>& intervals, size_t enough = 0);

// What largest first may cost: some 100 ms and 16 MB (docs/perf/shard.md); an eighth of it for a question.
inline constexpr size_t kPairsMax = size_t{1} << 20;
inline constexpr size_t kAskedPairsMax = kPairsMax / 8;

}  // namespace weft
