// What a collective of a group over several islands would do, without such a group: its schedule, what that sends, and how long it
// takes by a model of the links.
//
//   WEFT_ASSIGN_OR_RETURN(SpanExplanation all, ExplainSpan(call, islands, LinkModel::Default()));
//
// Thread-safety: a pure function. Time: about 2 us for each op of all ranks, of which an all_to_all has two for each pair.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "comm/group/collective.h"
#include "comm/hierarchy/islands.h"
#include "comm/select/link_model.h"

namespace weft {

struct SpanExplanation {
  std::string schedule;
  int pieces = 0;           // of a reduction: what the island that has most sends each by itself
  int levels = 0;           // messages, one waiting for the other, from the first one to the last
  uint64_t node_bytes = 0;  // sent to other islands by the one that sends most
  uint64_t all_far_bytes = 0;   // by all islands together
  uint64_t all_near_bytes = 0;  // within them
  int64_t predicted_ns = 0;     // sums and copies take no time
};

// Of a call of one count, which no file serves. UNSUPPORTED if there is no schedule.
absl::StatusOr<SpanExplanation> ExplainSpan(const Collective& call, const Islands& islands,
                                            const LinkModel& model);

}  // namespace weft
