// Cutting units into as many slices as there are participants, as evenly as whole units allow.
//
//   const UnitSlice own = SliceOf(1000, 3, 0);    // {0, 333}
//
// Slices follow each other without gaps and differ by at most one unit.
// Thread-safety: pure functions.
#pragma once

#include <cstdint>

namespace weft {

struct UnitSlice {
  uint64_t begin = 0;
  uint64_t units = 0;

  uint64_t end() const { return begin + units; }
};

// floor(value * part / whole) for part <= whole < 2^32, without overflow.
inline uint64_t PartOf(uint64_t value, uint64_t part, uint64_t whole) {
  return value / whole * part + value % whole * part / whole;
}

inline UnitSlice SliceOf(uint64_t count, int slices, int number) {
  const auto whole = static_cast<uint64_t>(slices);
  const auto at = static_cast<uint64_t>(number);
  const uint64_t begin = PartOf(count, at, whole);
  return {begin, PartOf(count, at + 1, whole) - begin};
}

// Slices first to first + number - 1, which lie side by side.
inline UnitSlice SlicesOf(uint64_t count, int slices, int first, int number) {
  const auto whole = static_cast<uint64_t>(slices);
  const uint64_t begin = PartOf(count, static_cast<uint64_t>(first), whole);
  return {
      begin,
      PartOf(count, static_cast<uint64_t>(first) + static_cast<uint64_t>(number), whole) - begin};
}

}  // namespace weft
