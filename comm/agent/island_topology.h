// Which islands hold a connection to each other: a ring with chords over 1, 2, 4, ... islands.
//
//   IslandTopology topology(island_count);
//   for (const int peer : topology.NeighboursOf(self)) ...
//   if (topology.DialsFirst(self, peer)) ...     // one side of each connection makes it
//
// At most 2 * ceil(log2 N) connections per island; any two islands are at most ceil(log2 N) steps apart; whatever single
// island is lost, the others remain connected. Places are 0 to N - 1; who stands at which is the caller's.
// Thread-safety: pure.
#pragma once

#include <vector>

namespace weft {

class IslandTopology {
 public:
  static constexpr int kIslandsMax = 4096;

  explicit IslandTopology(int count);

  int count() const { return count_; }

  // Ascending, without `place`.
  std::vector<int> NeighboursOf(int place) const;
  bool AreNeighbours(int a, int b) const;

  // Of two neighbours: `a` makes the connection, `b` accepts it.
  bool DialsFirst(int a, int b) const;

  // At most that many islands lie on a shortest path behind the first one.
  int diameter() const { return log2_; }

 private:
  // b lies 1, 2, 4, ... places behind a.
  bool IsChord(int a, int b) const;

  int count_;
  int log2_;  // ceil
};

}  // namespace weft
