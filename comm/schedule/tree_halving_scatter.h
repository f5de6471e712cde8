// The reduce_scatter of tree halving, which MakeTreeHalvingSchedule makes (algorithms.h).
//
//   if (goal.kind == GoalKind::kReduceScatter) return MakeTreeHalvingScatterSchedule(goal);
//
// Thread-safety: a pure function.
#pragma once

#include <memory>

#include "comm/schedule/schedule.h"

namespace weft {

// Of a reduce_scatter, of blocks that differ or not, in whose order each participant has one piece.
std::unique_ptr<CollectiveSchedule> MakeTreeHalvingScatterSchedule(const ScheduleGoal& goal);

}  // namespace weft
