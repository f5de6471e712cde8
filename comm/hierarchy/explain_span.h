// What a collective of a group over several islands would do, without such a group: its schedule, what that sends, and how long it
// takes by a model of the links.
//
//   WEFT_ASSIGN_OR_RETURN(SpanExplanation all, ExplainSpan(call, islands, LinkModel::Default()));
//
// Thread-safety: pure functions. Time: about 2 us for each op of all ranks, of which an all_to_all has two for each pair.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "comm/engine/unit_arithmetic.h"
#include "comm/group/collective.h"
#include "comm/hierarchy/islands.h"
#include "comm/schedule/schedule.h"
#include "comm/select/link_model.h"

namespace weft {

struct SpanExplanation {
  std::string schedule;
  int segments = 1;
  int pieces = 0;           // of a reduction: what the island that has most sends each by itself
  int levels = 0;           // messages, one waiting for the other, from the first one to the last
  uint64_t node_bytes = 0;  // sent to other islands by the one that sends most
  uint64_t all_far_bytes = 0;   // by all islands together
  uint64_t all_near_bytes = 0;  // within them
  int64_t predicted_ns = 0;     // sums and copies take no time
};

// How long a schedule takes by a model of the links, in nanoseconds; nothing if it has too many messages to be tried in some tenths of a
// second.
std::optional<int64_t> PredictSpan(const CollectiveSchedule& schedule,
                                   const UnitArithmetic& arithmetic, const Islands& islands,
                                   const LinkModel& model);

// What is known of the links, for a person: lines that end with a line feed.
std::string LinksText(const LinkModel& model);

// Of a call of one count, which no file serves. UNSUPPORTED if there is no schedule.
absl::StatusOr<SpanExplanation> ExplainSpan(const Collective& call, const Islands& islands,
                                            const LinkModel& model);

}  // namespace weft
