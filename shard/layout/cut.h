// How a range of elements is cut between ranks: pure arithmetic.
//
//   std::vector<size_t> cuts = CutElements(1000, 3);          // {0, 384, 768, 1000}
//   std::vector<size_t> cuts = CutAt({0, 300, 1000}, 3);      // {0, 1000, 1000, 1000}
//   std::vector<size_t> loads = {500, 0, 0};                  // what ranks have of earlier ranges
//   std::vector<size_t> cuts = CutByLoad({0, 300, 1000}, loads);      // {0, 0, 300, 1000}; loads 500, 300, 700
//
// Rank r has the elements [cuts[r], cuts[r + 1]), which may be none. Cuts are multiples of kCutElements, or
// the end: norms are summed in blocks of that many elements, so they do not depend on the cut.
//
// Thread-safety: pure functions.
#pragma once

#include <cstddef>
#include <vector>

namespace weft {

// Params start at multiples of it, and cuts lie at multiples of it.
constexpr size_t kCutElements = 128;

constexpr size_t RoundUpToCut(size_t count) {
  return (count + kCutElements - 1) / kCutElements * kCutElements;
}

// Equal shares, rounded up; the last ranks get what is left.
std::vector<size_t> CutElements(size_t count, int ranks);

// As equal as `boundaries` allow, which ascend from 0 to the count: each cut is the first boundary at or
// after the equal share.
std::vector<size_t> CutAt(const std::vector<size_t>& boundaries, int ranks);

// So that no rank has more than it must, in this range and in those before: rank r has loads[r] elements
// already, to which its part is added. Each interval between two boundaries has one owner. Where units are one
// large param and a small one each, the large ones go round.
std::vector<size_t> CutByLoad(const std::vector<size_t>& boundaries, std::vector<size_t>& loads);

// Adds to `boundaries` the places inside a param of `count` elements that begins at `begin`, in rows of
// `row_elements`, where it may be cut without parting blocks of `rows` rows.
void AddRowBoundaries(size_t begin, size_t count, size_t row_elements, size_t rows,
                      std::vector<size_t>& boundaries);

}  // namespace weft
