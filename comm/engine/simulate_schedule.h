// How long a schedule takes by a model of the links, and what it sends: all participants carry it out on sizes alone, over a network
// with a clock of its own (comm/transport/simulated_network.h).
//
//   WEFT_ASSIGN_OR_RETURN(SimulatedCost cost, SimulateSchedule(*schedule, UnitArithmetic(4), island_of, LinkModel::Default()));
//   cost.end_ns
//
// Sums and copies take no time, so the smaller its messages are, the better the number.
//
// Thread-safety: a pure function. Time: that of all ops of all participants, about a microsecond each.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "comm/engine/unit_arithmetic.h"
#include "comm/schedule/schedule.h"
#include "comm/select/link_model.h"

namespace weft {

struct SimulatedCost {
  int64_t end_ns = 0;               // when the last participant is done
  std::vector<uint64_t> far_bytes;  // by island: what its participants have sent to other islands
  uint64_t near_bytes = 0;          // of all: what stayed on islands
};

// `island_of`: by participant, from 0 on. INTERNAL if the schedule does not end, which none does that was proved.
absl::StatusOr<SimulatedCost> SimulateSchedule(const CollectiveSchedule& schedule,
                                               const UnitArithmetic& arithmetic,
                                               const std::vector<int>& island_of,
                                               const LinkModel& model);

// Whether it is too much to be simulated: participants with as many ops as the first one has have more than `ops_max` together. Stops counting there.
bool HasMoreOps(const CollectiveSchedule& schedule, uint64_t ops_max);

}  // namespace weft
