// What the calls of a step need, and from when to when: the residencies of a schedule before anything is prefetched or placed.
//
//   std::vector<Residency> gathers = ParamNeeds(input, events);
//   const std::vector<int> order = ReductionOrder(input, events);
//   std::vector<Residency> gradients = GradientNeeds(input, events, order);
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "shard/step/event.h"
#include "shard/step/schedule.h"

namespace weft {

// In half steps: when the call of number `event` is made, and when it has been served.
constexpr int64_t TimeOf(int event) {
  return int64_t{2} * event;
}

constexpr int64_t TimeAfter(int event) {
  return TimeOf(event) + 1;
}

// The residencies of units, one for each use, in the order in which they are needed; `begin` is not set.
std::vector<Residency> ParamNeeds(const ScheduleInput& input, const std::vector<Event>& events);

// Buckets in the order in which the last micro-batch completes them.
std::vector<int> ReductionOrder(const ScheduleInput& input, const std::vector<Event>& events);

// The residencies of buckets whose gradients are sharded at rest, reduced in `order`; none for an evaluation.
std::vector<Residency> GradientNeeds(const ScheduleInput& input, const std::vector<Event>& events,
                                     const std::vector<int>& order);

}  // namespace weft
