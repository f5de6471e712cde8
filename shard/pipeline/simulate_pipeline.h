// How long a step of a pipeline takes, from what its actions and messages take, and where ranks
// idle.
//
//   WEFT_ASSIGN_OR_RETURN(PipelineTimeline timeline, SimulatePipeline(schedule, costs));
//   timeline.seconds, timeline.Bubble();
//
// Every event takes place as soon as what it waits for has (pipeline_events.h): a link carries one
// message at a time in each direction between two ranks, and computing is not slowed down by
// messages.
//
// Thread-safety: pure.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "shard/pipeline/pipeline_schedule.h"

namespace weft {

// Seconds, or any unit. A whole backward takes both of its halves.
struct StageCosts {
  double forward = 1;
  double backward_input = 1;
  double backward_weight = 1;
};

struct PipelineCosts {
  // By rank and chunk: [rank * chunks + chunk]; or one for all.
  std::vector<StageCosts> stages = {StageCosts{}};
  double message = 0;  // from one rank to another
};

struct PipelineSpan {
  double begin = 0;
  double end = 0;
};

struct PipelineTimeline {
  double seconds = 0;
  std::vector<std::vector<PipelineSpan>> spans;  // by rank and action: of messages, the waiting
  std::vector<double> busy;                      // by rank: seconds of computing

  // The part of all ranks' time in which they do not compute.
  double Bubble() const;
};

// INVALID_ARGUMENT for costs of another number of stages, and for what VerifyPipeline refuses
// because of messages or of a circle.
absl::StatusOr<PipelineTimeline> SimulatePipeline(const PipelineSchedule& schedule,
                                                  const PipelineCosts& costs);

}  // namespace weft
