// The calls that a step is expected to make: what the first schedules are made from, before a step has been recorded.
//
//   const std::vector<Event> events = PredictEvents(units, /*train=*/true, /*microbatches=*/1);
//
// Thread-safety: pure functions.
#pragma once

#include <cstddef>
#include <vector>

#include "shard/step/event.h"

namespace weft {

// The calls of a step that uses units in forward in this order in each micro-batch, where a unit may stand
// several times or not at all, and in backward in the reverse order.
std::vector<Event> PredictEvents(const std::vector<int>& order, bool train, int microbatches);

// The same of units that are used inside others: `within[unit]` is the one that it is used in, which has a smaller number, or -1. One
// whose outer unit is not in `order` is used by itself.
std::vector<Event> PredictEvents(const std::vector<int>& order, const std::vector<int>& within,
                                 bool train, int microbatches);

// Forward or backward of a unit, from its pre_ to its post_ call.
struct UnitRun {
  int unit = 0;
  bool backward = false;
};

// The calls of a step each of whose micro-batches has these runs, one after the other: only those of forward unless it trains.
std::vector<Event> PredictEvents(const std::vector<UnitRun>& runs, bool train, int microbatches);

// The calls of a step that uses every unit once, in the order of declaration.
std::vector<Event> PredictEvents(size_t units, bool train, int microbatches);

}  // namespace weft
