// Which schedule a collective of a group over several islands takes.
//
//   WEFT_ASSIGN_OR_RETURN(std::unique_ptr<CollectiveSchedule> schedule, ScheduleOf(call, rank, islands));
//
// The choice depends on the call and the islands alone, so it is the same on all ranks:
//   small                     one level, or log2 P: what counts is how often a message crosses
//   large, if there are lanes a hierarchy: what counts is how many bytes leave an island
//   else                      direct, which sends each byte once
//   counts of two ranks alone an exchange
// All have the same bits.
//
// Thread-safety: a pure function.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "comm/group/collective.h"
#include "comm/hierarchy/islands.h"
#include "comm/schedule/schedule.h"

namespace weft {

// UNSUPPORTED if there is none.
absl::StatusOr<std::unique_ptr<CollectiveSchedule>> ScheduleOf(const Collective& call, int rank,
                                                               const Islands& islands);

}  // namespace weft
