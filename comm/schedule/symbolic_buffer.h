// What each unit of a memory holds while a schedule is carried out symbolically: which sum, and of which unit of the whole.
//
//   SymbolicBuffer buffer(1000);
//   buffer.Write(0, {{0, 500, sums.Leaf(3), 0}});   // units 0 to 499: contribution 3's unit 0 to 499
//   for (const SymbolicRun& run : buffer.Read(100, 50)) ...
//
// Runs of units are kept together: a buffer costs as many runs as there are different ranges, not units. That a sum joins units of the
// same place is seen by `shift`: the unit at offset o of a buffer is unit o + shift of the vector that the goal is about.
// Thread-safety: one thread.
#pragma once

#include <cstdint>
#include <vector>

#include "comm/schedule/symbolic_sums.h"

namespace weft {

struct SymbolicRun {
  uint64_t begin = 0;
  uint64_t end = 0;
  SumId sum = kNoSum;
  int64_t shift = 0;
};

class SymbolicBuffer {
 public:
  SymbolicBuffer() = default;

  explicit SymbolicBuffer(uint64_t units) : units_(units) {}

  uint64_t units() const { return units_; }

  // The runs that make up [offset, offset + units) without gaps, those that were not written included; begin and end count from `offset`,
  // and shift accordingly.
  std::vector<SymbolicRun> Read(uint64_t offset, uint64_t units) const;

  // `runs` as Read gives them, put at `offset`.
  void Write(uint64_t offset, const std::vector<SymbolicRun>& runs);

 private:
  void Clear(uint64_t begin, uint64_t end);

  uint64_t units_ = 0;
  std::vector<SymbolicRun> runs_;  // ascending, without overlaps; gaps were not written
};

}  // namespace weft
