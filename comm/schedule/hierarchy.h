// Hierarchy: a collective of participants of whom some are near each other, on islands. What crosses between islands is what one participant
// per island would send, in as many lanes as the islands have participants, so that all links are used.
//
//   std::unique_ptr<CollectiveSchedule> schedule =
//       MakeHierarchySchedule(goal, /*island_of=*/{0, 0, 1, 1}, /*segments=*/1, MakeDirectSchedule);
//
// A lane is a range of units that one participant of each island, its owner there, carries across. For reductions the owner first adds
// what its island has: each piece of the canonical tree that the island holds (tree_pieces.h), or everything if the goal has no
// order. Then the lane goes across, by any schedule of as many participants as there are islands. Where all want the result, the owner hands
// it to its island.
//
//   goal            lanes                               across
//   all_reduce      as many as the largest island has   all_reduce
//   reduce          the same; all are the root's there  reduce
//   broadcast       the same                            broadcast
//   reduce_scatter  one per block                       reduce, to the island of its participant
//   all_gather      one per block                       broadcast, from there
//
// (Lanes: Jain et al., "Optimization of Message Passing Services on POWER8 InfiniBand Clusters", 2016, there called multi-leader.)
//
// Each lane may be cut into segments, which go one behind the other: while one is added the next is on its way.
//
// Islands may be of any size, and any map of participants to islands will do: one that splits the tree badly has more pieces.
//
// Thread-safety: pure.
#pragma once

#include <memory>
#include <vector>

#include "comm/schedule/schedule.h"

namespace weft {

// Null if the goal has no lanes (gather, scatter, all_to_all, barrier, scans), is of other pieces than a vector of elements per participant, has
// a single island or none, or `across` does not serve what goes between islands. island_of[p]: any numbers from 0 on, each one used.
std::unique_ptr<CollectiveSchedule> MakeHierarchySchedule(
    const ScheduleGoal& goal, const std::vector<int>& island_of, int segments,
    std::unique_ptr<CollectiveSchedule> (*across)(const ScheduleGoal& goal));

}  // namespace weft
