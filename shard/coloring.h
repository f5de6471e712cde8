// Gives intervals of time places in one block of memory, so that no two that are alive together overlap.
//
//   std::vector<Interval> intervals = {{0, 4, 1024, 0}, {2, 6, 512, 0}};
//   const size_t bytes = Color(intervals);      // sets the offsets
//
// Thread-safety: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft {

struct Interval {
  int64_t begin = 0;  // both included
  int64_t end = 0;
  size_t bytes = 0;
  size_t offset = 0;
};

// Tries largest first and earliest first, each to the lowest offset that is free all the time, keeps the
// better and returns how many bytes it takes.
size_t Color(std::vector<Interval>& intervals);

}  // namespace weft
