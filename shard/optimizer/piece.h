// Intervals of a space, cut where several threads may share them.
//
//   for (size_t i = 0; i < PieceCount(begin, count); ++i) Update(PieceOf(begin, count, i));
//
// Cuts are at multiples of kPieceElements of the space, hence of kSquareBlock: sums of squares of the pieces are those
// of the interval, bit for bit, and where arrays are aligned, pieces share no cache line.
//
// Thread-safety: pure functions.
#pragma once

#include <algorithm>
#include <cstddef>

#include "shard/optimizer/optimizer_isa.h"

namespace weft {

// Some 25 us of AdamW (docs/perf/optimizer.md): long beside taking a piece and adding its sums, short beside a bucket.
inline constexpr size_t kPieceElements = size_t{1} << 15;
static_assert(kPieceElements % kSquareBlock == 0);

struct Piece {
  size_t begin = 0;  // element in the space
  size_t count = 0;
};

// How many pieces elements [begin, begin + count) have.
constexpr size_t PieceCount(size_t begin, size_t count) {
  if (count == 0) return 0;
  return (begin + count - 1) / kPieceElements - begin / kPieceElements + 1;
}

constexpr Piece PieceOf(size_t begin, size_t count, size_t index) {
  const size_t from = (begin / kPieceElements + index) * kPieceElements;
  const size_t first = std::max(from, begin);
  return {first, std::min(from + kPieceElements, begin + count) - first};
}

}  // namespace weft
