// Which schedule a collective of a group over several islands takes.
//
//   WEFT_ASSIGN_OR_RETURN(ChosenSchedule chosen, ChooseSchedule(call, rank, islands, foreign, choices));
//
// The choice depends on the call, the islands and the links' model alone (span_choice.h), so it is the same on all ranks:
//   small                     one level, or log2 P: what counts is how often a message crosses
//   large, if there are lanes a hierarchy: what counts is how many bytes leave an island
//   else                      direct, which sends each byte once; a reduce_scatter of many ranks and small blocks by halves (scatter_choice.h)
//   counts of two ranks alone an exchange
//   scans                     log2 P levels of whole vectors, whatever the islands
// All have the same bits: sums are formed along the canonical tree (docs/design/001-numbers.md), but for those whose bits no order changes. Of
// these an island adds all that it has, so it is a single piece whatever the map of ranks to islands. Schedules of the user's (foreign_schedules.h) come before them, where they serve the call.
//
// Thread-safety: pure functions, but for the choices, which are kept.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "comm/engine/unit_arithmetic.h"
#include "comm/group/collective.h"
#include "comm/hierarchy/foreign_schedules.h"
#include "comm/hierarchy/islands.h"
#include "comm/hierarchy/span_choice.h"
#include "comm/schedule/schedule.h"

namespace weft {

struct ChosenSchedule {
  std::unique_ptr<CollectiveSchedule> schedule;
  const ForeignSchedule* foreign = nullptr;  // the user's that it is; nullptr: weft's own
};

// UNSUPPORTED if there is none, or if the call insists on an algorithm: those that calls may name are of one node.
absl::StatusOr<ChosenSchedule> ChooseSchedule(const Collective& call, int rank,
                                              const Islands& islands,
                                              const ForeignSchedules& foreign,
                                              SpanChoices& choices);

// Whether weft's schedules add the call's contributions in whatever order, as the bits are the same in each: integers, bits, min, max
// and their places; or the caller does not mind (WEFT_NUMERICS_FAST) and sums on the way are of the type. Of a kind that adds.
bool AddsInAnyOrder(const Collective& call);

// Weft's own.
absl::StatusOr<std::unique_ptr<CollectiveSchedule>> ScheduleOf(const Collective& call, int rank,
                                                               const Islands& islands,
                                                               SpanChoices& choices);

// How many bytes a call's units have; nothing is added by it.
UnitArithmetic SizesOf(const Collective& call, int size);

}  // namespace weft
