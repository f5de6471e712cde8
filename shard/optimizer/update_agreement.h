// Were all ranks asked for the same update, of groups with the same numbers? One number says so, which travels with the gradient
// norm; what differs is looked for only then.
//
//   words.push_back(UpdateMark(&update, optimizer.groups_mark()));      // all_reduce: int64, sum
//   if (MarksDiffer(words.back(), own_mark, ranks)) return ExplainUpdates(...);      // collective
//
// Thread-safety: pure functions; ExplainUpdates is a collective call.
#pragma once

#include <cstdint>
#include <span>

#include "weft/shard_step.h"

#include "absl/status/status.h"
#include "comm/group/process_group.h"
#include "shard/optimizer/param_groups.h"

namespace weft {

// A hash of its numbers and of those of all groups, which `groups_mark` is one of. nullptr: none, gradients are dropped.
int64_t UpdateMark(const weft_shard_update_t* update, uint64_t groups_mark);

// True if `sum`, the marks of so many ranks added as int64 that wrap, is not that of ranks that all have the mark `own`.
// If ranks differ every one of them sees it, but for a chance of 2^-64.
bool MarksDiffer(int64_t sum, int64_t own, int ranks);

// CORRUPT: marks differed, what they are made of does not.
absl::Status NotSeenAgain(const ProcessGroup& group, const char* call);

// MISMATCH with the values of the outlier and of the others. `groups`: as many on all ranks. Collective.
absl::Status ExplainUpdates(ProcessGroup& group, const weft_shard_update_t* update,
                            std::span<const OptimizerGroup> groups, int64_t timeout_ns,
                            const CallPurpose& purpose);

}  // namespace weft
