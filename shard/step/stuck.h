// Pure: which ranks of a context wait for each other for ever.
//
//   const std::vector<bool> stuck = FindStuck(waits, shape);       // waits[r] as rank r has shown it
//   const std::vector<int> cycle = FindCycle(waits, shape, stuck);
//
// A context has operations under way in several groups, its channels, and counts in each what it has started and what has
// ended. A rank that waits has promised: it starts nothing until an operation of its own has ended. So a set of waiting ranks
// is stuck if of each of them, in every channel where something is under way, the oldest lacks a rank of the set, which
// has not started it: the first thing to happen among them would be the end of an operation that one of them has yet to
// start. docs/design/008-waits.md has the proof, and from which readings `waits` may be put together.
//
// Thread-safety: pure functions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft {

// Groups in which a context has operations, each among ranks of its mesh: all, those along the last axis, those with the
// same place on it.
enum class ContextGroup : uint8_t {
  kMesh,
  kGather,
  kInnerGather,
  kInnerScatter,
  kOuterReduce,
  kMeshInner,
  kMeshOuter
};
constexpr size_t kContextGroupCount = 7;

struct MeshShape {
  int size = 1;
  int inner_size = 1;  // ranks along the last axis
};

struct OpCounts {
  uint64_t started = 0;
  uint64_t ended = 0;  // at least
};

struct RankWait {
  bool waits = false;  // and nothing but the end of an operation makes it start another one
  ContextGroup channel =
      ContextGroup::kMesh;  // of the operation that it waits for, which has not ended,
  uint64_t number = 0;      // from 1
  std::array<OpCounts, kContextGroupCount> channels;
};

// True if the two are in one group of this channel.
bool Meet(ContextGroup channel, const MeshShape& shape, int a, int b);

// By rank. The largest such set.
std::vector<bool> FindStuck(const std::vector<RankWait>& waits, const MeshShape& shape);

// Ranks of a set that is stuck, each waiting for the next one and the last one for the first, which is the lowest.
std::vector<int> FindCycle(const std::vector<RankWait>& waits, const MeshShape& shape,
                           const std::vector<bool>& stuck);

// The rank that waits for another operation than all others, who wait for the same one and are more than half of the
// mesh; -1 if there is none.
int FindOutlier(const std::vector<RankWait>& waits);

}  // namespace weft
