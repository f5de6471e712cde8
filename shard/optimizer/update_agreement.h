// Were all ranks asked for the same update? One number says so, which travels with the gradient norm; what differs is
// looked for only then.
//
//   words.push_back(UpdateMark(update));      // all_reduce: int64, sum
//   if (MarksDiffer(words.back(), update, ranks)) return ExplainUpdates(...);      // collective
//
// Thread-safety: pure functions; ExplainUpdates is a collective call.
#pragma once

#include <cstdint>

#include "weft/shard_step.h"

#include "absl/status/status.h"
#include "comm/group/process_group.h"

namespace weft {

// A hash of its numbers.
int64_t UpdateMark(const weft_shard_update_t& update);

// True if `sum`, the marks of so many ranks added as int64 that wrap, is not that of ranks that are all asked for
// `update`. If ranks differ every one of them sees it, but for a chance of 2^-64.
bool MarksDiffer(int64_t sum, const weft_shard_update_t& update, int ranks);

// MISMATCH with the values of the outlier and of the others. Collective.
absl::Status ExplainUpdates(ProcessGroup& group, const weft_shard_update_t& update,
                            int64_t timeout_ns, const CallPurpose& purpose);

}  // namespace weft
