// Carries a schedule out on expressions, in one legal order, and compares what comes out with the goal: a step of the verifier.
//
//   WEFT_RETURN_IF_ERROR(ExecuteSymbolically(schedule, graph, /*in_place=*/false));
//
// One order is enough once it is known that no two ops race (V3 of verify_schedule.h).
// Thread-safety: pure.
#pragma once

#include "absl/status/status.h"
#include "comm/schedule/op_graph.h"
#include "comm/schedule/schedule.h"

namespace weft {

// INVALID_ARGUMENT naming the op that reads what was not written or adds units of different places, or the output that is wrong. The ops
// must stay within their buffers.
absl::Status ExecuteSymbolically(const CollectiveSchedule& schedule, const OpGraph& graph,
                                 bool in_place);

}  // namespace weft
