#include "shard/layout/cut.h"

#include <algorithm>
#include <numeric>

namespace weft {
namespace {

// Has each rank, one after the other, take what it can without having more than `most`. If the last cut is not the count, that is too little.
std::vector<size_t> CutUpTo(size_t most, const std::vector<size_t>& boundaries,
                            const std::vector<size_t>& loads) {
  std::vector<size_t> cuts = {0};
  auto at = boundaries.begin();
  for (const size_t load : loads) {
    const size_t room = std::min(most - std::min(most, load), boundaries.back() - *at);
    at = std::upper_bound(at, boundaries.end(), *at + room) - 1;
    cuts.push_back(*at);
  }
  return cuts;
}

}  // namespace

std::vector<size_t> CutElements(size_t count, int ranks) {
  const auto parts = static_cast<size_t>(ranks);
  const size_t share = RoundUpToCut((count + parts - 1) / parts);
  std::vector<size_t> cuts;
  for (size_t rank = 0; rank <= parts; ++rank)
    cuts.push_back(std::min(count, rank * share));
  return cuts;
}

std::vector<size_t> CutAt(const std::vector<size_t>& boundaries, int ranks) {
  const auto parts = static_cast<size_t>(ranks);
  const size_t count = boundaries.back();
  std::vector<size_t> cuts = {0};
  for (size_t rank = 1; rank < parts; ++rank) {
    // Not rank * count / parts, which may overflow.
    const size_t share = count / parts * rank + count % parts * rank / parts;
    cuts.push_back(*std::lower_bound(boundaries.begin(), boundaries.end(), share));
  }
  cuts.push_back(count);
  return cuts;
}

std::vector<size_t> CutByLoad(const std::vector<size_t>& boundaries, std::vector<size_t>& loads) {
  const size_t count = boundaries.back();
  // The rank with the least can take all of it.
  size_t most = *std::min_element(loads.begin(), loads.end()) + count;
  for (size_t least = 0; least < most;) {
    const size_t middle = least + (most - least) / 2;
    if (CutUpTo(middle, boundaries, loads).back() == count)
      most = middle;
    else
      least = middle + 1;
  }
  std::vector<size_t> cuts = CutUpTo(most, boundaries, loads);
  for (size_t rank = 0; rank < loads.size(); ++rank)
    loads[rank] += cuts[rank + 1] - cuts[rank];
  return cuts;
}

void AddRowBoundaries(size_t begin, size_t count, size_t row_elements, size_t rows,
                      std::vector<size_t>& boundaries) {
  size_t block = 0;
  // A block that no multiple of kCutElements fits is not cut at all.
  if (__builtin_mul_overflow(row_elements, rows, &block) || block == 0) return;
  size_t step = 0;
  if (__builtin_mul_overflow(block / std::gcd(block, kCutElements), kCutElements, &step)) return;
  for (size_t at = step; at < count; at += step)
    boundaries.push_back(begin + at);
}

}  // namespace weft
