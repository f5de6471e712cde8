// Who still has data? Ranks tell each other at the begin of each step if the config says that they may run out of it.
//
//   WEFT_ASSIGN_OR_RETURN(const int active, TakeTurn(core, /*active=*/true));
//
// Thread-safety: a collective call, by the thread that makes step calls.
#pragma once

#include "absl/status/statusor.h"
#include "shard/context/context_core.h"

namespace weft {

// How many ranks have data for the step that has begun; MISMATCH if ranks have begun different steps. All ranks see
// the same turns and so return the same.
absl::StatusOr<int> TakeTurn(ContextCore& core, bool active);

}  // namespace weft
