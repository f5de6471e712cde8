#include "shard/step/recorded_steps.h"

namespace weft {

const RecordedStep& RecordedSteps::Of(const StepKind& kind) const {
  const auto known = known_.find(kind);
  return known != known_.end() ? known->second : expected_[kind.first];
}

RecordedStep* RecordedSteps::Record(const StepKind& kind) {
  const auto known = known_.find(kind);
  if (known != known_.end()) return &known->second;
  if (known_.size() == kKindsMax) return nullptr;
  return &known_[kind];
}

void RecordedSteps::Forget() {
  for (RecordedStep& step : expected_)
    step.agreed = false;
  for (auto& [kind, step] : known_)
    step.agreed = false;
}

std::vector<Event> RecordedSteps::EventsOf(const StepKind& kind) const {
  const auto known = known_.find(kind);
  if (known != known_.end() && !known->second.schedule.events.empty()) {
    return known->second.schedule.AllEvents();
  }
  return expected_[kind.first].schedule.AllEvents();
}

}  // namespace weft
