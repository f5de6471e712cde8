// A picture of a step: a lane for each rank, a box for each action, time to the right.
#pragma once

#include <string>

#include "shard/pipeline/simulate_pipeline.h"

namespace weft {

// One SVG document. `timeline`: of this schedule.
std::string PipelineAsSvg(const PipelineSchedule& schedule, const PipelineTimeline& timeline);

}  // namespace weft
