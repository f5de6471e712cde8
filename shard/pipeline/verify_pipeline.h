// The proof that a pipeline's schedule trains what it should, and ends.
//
//   absl::StatusOr<PipelineProof> proof = VerifyPipeline(schedule);
//   if (!proof.ok()) ...      // rank and action that break a rule
//
// What is proved:
//
//  P1 Every micro-batch is computed once by every stage of its route: one forward, and one backward,
//     whole or in its two halves, behind it.
//  P2 A chunk's gradients are added in the order of its micro-batches.
//  P3 Each input and each gradient that comes from another rank is received before it is needed and
//     sent after it is made, and there are no other messages.
//  P4 Nothing waits in a circle, even if every send waits for its receive (pipeline_events.h).
// Cost: some 2 us per action.
// Thread-safety: pure.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "shard/pipeline/pipeline_schedule.h"

namespace weft {

struct PipelineProof {
  // By rank: how many micro-batches of a chunk are kept at the same time, summed over its chunks.
  std::vector<int> peak_activations;
  int messages = 0;  // of all ranks, each counted once
};

// INVALID_ARGUMENT with the rank, the action and the rule.
absl::StatusOr<PipelineProof> VerifyPipeline(const PipelineSchedule& schedule);

}  // namespace weft
