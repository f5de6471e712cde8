#include "comm/schedule/algorithms.h"

#include <string>

#include "base/status.h"
#include "base/text.h"

namespace weft {

absl::StatusOr<std::unique_ptr<CollectiveSchedule>> MakeSchedule(std::string_view algorithm,
                                                                 const ScheduleGoal& goal) {
  WEFT_RETURN_IF_ERROR(CheckGoal(goal));
  std::string names;
  for (const ScheduleAlgorithm& one : kScheduleAlgorithms) {
    names += StrCat(names.empty() ? "" : ", ", one.name);
    if (one.name != algorithm) continue;
    const bool serves = goal.blocks.empty() || one.make == MakeDirectSchedule ||
                        one.make == MakeTreeHalvingSchedule;
    if (std::unique_ptr<CollectiveSchedule> schedule = serves ? one.make(goal) : nullptr)
      return schedule;
    return MakeError(WEFT_UNSUPPORTED,
                     StrCat("there is no ", algorithm, " schedule of ", GoalName(goal.kind),
                            goal.blocks.empty() ? "" : " of blocks that differ",
                            goal.Reduces() && !goal.order_free ? " with sums in this order" : ""));
  }
  return MakeError(WEFT_INVALID_ARGUMENT,
                   StrCat("there is no schedule called ", algorithm, "; there are ", names));
}

}  // namespace weft
