// The numbers of a context that belong to no param: how many steps and updates there were, and the loss scale. A checkpoint
// keeps them, and ranks must agree on most.
//
//   const weft_shard_state_scalars_t scalars = ScalarsOf(core, nonfinite);      // under the mutex
//   words.push_back(MarkOf(scalars));                                           // all_reduce: int64, sum
//   if (ScalarsDiffer(words.back(), scalars, ranks)) return ExplainScalars(...);        // collective
//
// Thread-safety: ScalarsOf and SetScalars are guarded by the context's mutex and belong to the thread that makes step calls;
// MarkOf and ScalarsDiffer are pure; CompareScalars and ExplainScalars are collective.
#pragma once

#include <cstdint>

#include "weft/shard_state.h"

#include "absl/status/status.h"
#include "shard/context/context_core.h"
#include "shard/optimizer/nonfinite.h"

namespace weft {

// From finalize on.
weft_shard_state_scalars_t ScalarsOf(ContextCore& core, const NonfiniteRun& nonfinite);

// INVALID_ARGUMENT, and nothing is changed, if a number is out of range or the context has no place for it.
absl::Status SetScalars(ContextCore& core, const weft_shard_state_scalars_t& scalars,
                        NonfiniteRun& nonfinite);

// A hash of what an update depends on.
int64_t MarkOf(const weft_shard_state_scalars_t& scalars);

// True if `sum`, the marks of so many ranks added as int64 that wrap, is not that of ranks that all have `scalars`. If ranks
// differ every one of them sees it, but for a chance of 2^-64.
bool ScalarsDiffer(int64_t sum, const weft_shard_state_scalars_t& scalars, int ranks);

// MISMATCH with the numbers of the outlier and of the others, CORRUPT if they differ no longer. Collective.
absl::Status ExplainScalars(ContextCore& core, const char* call,
                            const weft_shard_state_scalars_t& scalars);

// The same for state_written, where also `kinds` and the training steps are compared; Ok if no rank differs. Collective.
absl::Status CompareWritten(ContextCore& core, uint32_t kinds,
                            const weft_shard_state_scalars_t& scalars);

}  // namespace weft
