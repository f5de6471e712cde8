#include "shard/pipeline/simulate_pipeline.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "shard/pipeline/pipeline_events.h"

namespace weft {
namespace {

double CostOf(const PipelineAction& action, const StageCosts& costs) {
  switch (action.kind) {
    case PipelineActionKind::kForward:
      return costs.forward;
    case PipelineActionKind::kBackward:
      return costs.backward_input + costs.backward_weight;
    case PipelineActionKind::kBackwardInput:
      return costs.backward_input;
    case PipelineActionKind::kBackwardWeight:
      return costs.backward_weight;
    default:
      return 0;
  }
}

}  // namespace

double PipelineTimeline::Bubble() const {
  const double computing = std::accumulate(busy.begin(), busy.end(), 0.0);
  return 1 - computing / (seconds * static_cast<double>(busy.size()));
}

absl::StatusOr<PipelineTimeline> SimulatePipeline(const PipelineSchedule& schedule,
                                                  const PipelineCosts& costs) {
  const auto ranks = static_cast<size_t>(schedule.shape.ranks);
  const auto chunks = static_cast<size_t>(schedule.shape.chunks);
  if (costs.stages.size() != 1 && costs.stages.size() != ranks * chunks) {
    return absl::InvalidArgumentError(absl::StrCat("costs are of ", costs.stages.size(),
                                                   " stages, not of 1 or ", ranks * chunks));
  }
  absl::StatusOr<PipelineEvents> events = PipelineEvents::Of(schedule);
  if (!events.ok()) return events.status();
  absl::StatusOr<std::vector<int>> order = events->InOrder();
  if (!order.ok()) return order.status();

  // What each event adds to the last of those it waits for.
  std::vector<double> takes(static_cast<size_t>(events->size()), 0);
  PipelineTimeline timeline;
  timeline.busy.assign(ranks, 0);
  for (size_t rank = 0; rank < ranks; rank++) {
    const std::vector<PipelineAction>& actions = schedule.actions[rank];
    for (size_t i = 0; i < actions.size(); i++) {
      const auto chunk = static_cast<size_t>(actions[i].chunk);
      const size_t stage = costs.stages.size() == 1 ? 0 : rank * chunks + chunk;
      const double cost = CostOf(actions[i], costs.stages[stage]);
      const int end = events->EndOf(static_cast<int>(rank), i);
      takes[static_cast<size_t>(end)] = cost;
      timeline.busy[rank] += cost;
      if (IsSend(actions[i].kind)) takes[static_cast<size_t>(end) + 1] = costs.message;
    }
  }
  std::vector<double> when(takes.size(), 0);
  for (const int event : *order) {
    double begin = 0;
    for (const int other : events->Before(event)) {
      if (other != PipelineEvents::kNone) begin = std::max(begin, when[static_cast<size_t>(other)]);
    }
    when[static_cast<size_t>(event)] = begin + takes[static_cast<size_t>(event)];
    timeline.seconds = std::max(timeline.seconds, when[static_cast<size_t>(event)]);
  }
  for (size_t rank = 0; rank < ranks; rank++) {
    std::vector<PipelineSpan>& spans = timeline.spans.emplace_back();
    double before = 0;
    for (size_t i = 0; i < schedule.actions[rank].size(); i++) {
      const auto end = static_cast<size_t>(events->EndOf(static_cast<int>(rank), i));
      const bool message = IsMessage(schedule.actions[rank][i].kind);
      spans.push_back({message ? before : when[end] - takes[end], when[end]});
      before = when[end];
    }
  }
  return timeline;
}

}  // namespace weft
