#include "comm/agent/island_topology.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace weft {

IslandTopology::IslandTopology(int count)
    : count_(count), log2_(count <= 1 ? 0 : std::bit_width(static_cast<unsigned>(count - 1))) {
  WEFT_CHECK(count >= 1 && count <= kIslandsMax);
}

std::vector<int> IslandTopology::NeighboursOf(int place) const {
  std::vector<int> found;
  for (int i = 0; i < log2_; ++i) {
    const int chord = 1 << i;
    found.push_back((place + chord) % count_);
    found.push_back((place + count_ - chord) % count_);
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  std::erase(found, place);
  return found;
}

bool IslandTopology::IsChord(int a, int b) const {
  return a != b && std::has_single_bit(static_cast<unsigned>((b - a + count_) % count_));
}

bool IslandTopology::AreNeighbours(int a, int b) const {
  return IsChord(a, b) || IsChord(b, a);
}

bool IslandTopology::DialsFirst(int a, int b) const {
  const bool forward = IsChord(a, b);
  const bool backward = IsChord(b, a);
  return forward && backward ? a < b : forward;
}

}  // namespace weft
