// Hierarchy: an all_reduce of groups of participants that are near each other. Each group forms the sums of its members' slices by itself
// (direct), member l of every group carries slice l across, by any all_reduce, and each group gathers the results. What crosses between
// groups is the vector once, in as many lanes as a group has members, instead of once per member.
//
//   std::unique_ptr<CollectiveSchedule> schedule = MakeHierarchySchedule(goal, /*group=*/8, MakeTreeHalvingSchedule);
//
// Groups are participants 0 to group - 1, group to 2 group - 1, ... With sums in canonical order, a group must be a power of two: then its
// participants are a whole subtree, and what is carried across is its accumulator.
//
// Thread-safety: pure.
#pragma once

#include <memory>

#include "comm/schedule/schedule.h"

namespace weft {

// Null if the goal is no all_reduce of one vector of elements per participant, groups do not divide the participants or are less than 2,
// they are no subtrees and the goal has an order, or `across` does not serve the goal between groups.
std::unique_ptr<CollectiveSchedule> MakeHierarchySchedule(
    const ScheduleGoal& goal, int group,
    std::unique_ptr<CollectiveSchedule> (*across)(const ScheduleGoal& goal));

}  // namespace weft
