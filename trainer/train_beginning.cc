// The weights of a trainer before its first step, and what is taken of it for another one.
#include "trainer/load_params.h"
#include "trainer/train.h"

namespace weft::trainer {

void Trainer::LoadParams(
    const std::function<std::vector<float>(const ParamSpec& spec, size_t index)>& values) {
  trainer::LoadParams(parallel_, units_, values);
}

void Trainer::Begin() {
  LoadParams([this](const ParamSpec& spec, size_t index) {
    std::vector<float> values(spec.Count());
    InitParam(spec, config_.seed, index, values.data());
    return values;
  });
  steps_done_ = 0;
}

void Trainer::GoOnAfter(const StepRecord& last, const SamplePlace& next) {
  last_ = last;
  steps_done_ = int64_t(last.step);
  updates_ = parallel_.update_count();
  sampler_.StartAt(last.step, next);
}

void Trainer::GoOnFrom(const TrainState& state) {
  parallel_.WriteState(state.values, state.scalars);
  last_ = state.last;
  steps_done_ = state.steps_done;
  updates_ = state.scalars.update_count;
  sampler_.StartAt(size_t(state.steps_done), state.next);
}

TrainState Trainer::TakeState() {
  TrainState state;
  if (steps_done_ < 0) return state;
  state.last = last_;
  state.steps_done = steps_done_;
  if (!parallel_.ReadState(state.values, state.scalars)) {
    state.steps_done = TrainState::kBroken;
  } else if (state.scalars.update_count > updates_) {
    // The step failed when its update was already made.
    state.steps_done = int64_t(record_.step);
    state.last = record_;
  }
  if (state.steps_done >= 0) state.next = sampler_.PlaceOf(size_t(state.steps_done));
  return state;
}

std::vector<std::vector<float>> Trainer::ReadParams() {
  std::vector<std::vector<float>> params;
  for (size_t u = 0; u < units_.size(); u++) {
    for (size_t p = 0; p < units_[u].params.size(); p++)
      params.push_back(parallel_.Read(u, p));
  }
  return params;
}

}  // namespace weft::trainer
