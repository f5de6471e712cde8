// Ring and chords for every number of islands: few connections, short ways, and nobody is cut off by the loss of one.
#include "comm/agent/island_topology.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <vector>

#include <gtest/gtest.h>

namespace weft::island_topology_test {
namespace {

int CeilLog2(int count) {
  return count <= 1 ? 0 : std::bit_width(static_cast<unsigned>(count - 1));
}

// How many places can be reached from `from` without `lost`, and in how many steps. Each place has its neighbours at
// the distances at which place 0 has them.
int Reached(int count, const std::vector<int>& distances, int from, int lost, int* steps) {
  std::vector<int> seen(static_cast<size_t>(count), -1);
  std::vector<int> queue(static_cast<size_t>(count));
  int* const seen_by = seen.data();
  int* const queued = queue.data();
  int end = 0;
  queued[end++] = from;
  seen_by[from] = 0;
  const int all = lost < 0 ? count : count - 1;
  for (int next = 0; next < end && end < all; ++next) {
    const int at = queued[next];
    for (const int distance : distances) {
      int peer = at + distance;
      if (peer >= count) peer -= count;
      if (peer == lost || seen_by[peer] >= 0) continue;
      seen_by[peer] = seen_by[at] + 1;
      queued[end++] = peer;
    }
  }
  *steps = seen_by[queued[end - 1]];
  return end;
}

TEST(IslandTopology, HasFewConnectionsShortWaysAndSurvivesTheLossOfOne) {
  for (int count = 1; count <= IslandTopology::kIslandsMax; ++count) {
    const IslandTopology topology(count);
    const std::vector<int> distances = topology.NeighboursOf(0);
    ASSERT_LE(static_cast<int>(distances.size()), 2 * CeilLog2(count) + 2) << count;
    int steps = 0;
    ASSERT_EQ(Reached(count, distances, 0, -1, &steps), count);
    ASSERT_LE(steps, topology.diameter()) << count;
    // Whose loss it is does not matter: every place looks alike.
    if (count == 1) continue;
    ASSERT_EQ(Reached(count, distances, 1, 0, &steps), count - 1) << count;
  }
}

TEST(IslandTopology, EveryPlaceLooksAlike) {
  for (const int count : {1, 2, 3, 4, 5, 6, 7, 8, 9, 31, 32, 33, 100, 1000, 4095, 4096}) {
    const IslandTopology topology(count);
    for (int place = 0; place < count; ++place) {
      std::vector<int> expected;
      for (const int distance : topology.NeighboursOf(0))
        expected.push_back((place + distance) % count);
      std::sort(expected.begin(), expected.end());
      ASSERT_EQ(topology.NeighboursOf(place), expected) << place << " of " << count;
    }
  }
}

TEST(IslandTopology, BothEndsKnowWhoMakesTheConnection) {
  for (int count = 1; count <= 130; ++count) {
    const IslandTopology topology(count);
    for (int a = 0; a < count; ++a) {
      int dials = 0;
      const std::vector<int> neighbours = topology.NeighboursOf(a);
      for (int b = 0; b < count; ++b) {
        const bool listed = std::find(neighbours.begin(), neighbours.end(), b) != neighbours.end();
        ASSERT_EQ(listed, topology.AreNeighbours(a, b)) << a << " " << b << " of " << count;
        if (!listed) continue;
        ASSERT_NE(topology.DialsFirst(a, b), topology.DialsFirst(b, a))
            << a << " " << b << " of " << count;
        dials += topology.DialsFirst(a, b) ? 1 : 0;
      }
      ASSERT_LE(dials, CeilLog2(count) + 1);
    }
  }
}

}  // namespace
}  // namespace weft::island_topology_test
