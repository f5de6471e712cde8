#include "trainer/schedule.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "trainer/config.h"
#include "trainer/failure.h"

namespace weft::trainer {
namespace {

constexpr const char* kSchedules[] = {"cosine", "linear", "constant", "wsd"};  // by Schedule
constexpr const char* kShapes[] = {"linear", "log"};                           // by WarmupShape
constexpr const char* kScalings[] = {"none", "linear", "sqrt"};                // by LrScaling
constexpr size_t kDecayShare = 10;  // of the steps of wsd, where nothing else is said

// From 0, or nearly so, to 1.
double WarmupProgress(const TrainConfig& config, size_t step) {
  if (config.warmup_shape == WarmupShape::kLinear) return double(step + 1) / double(config.warmup);
  return config.warmup == 1 ? 1 : std::log(double(step + 1)) / std::log(double(config.warmup));
}

// How far the fall has come, 0 to 1.
double FallProgress(const TrainConfig& config, size_t step) {
  size_t begin = config.warmup;
  if (config.schedule == Schedule::kWsd) {
    const size_t decay = config.decay == 0 ? config.steps / kDecayShare : config.decay;
    begin = std::max(begin, config.steps - std::min(decay, config.steps));
  }
  if (step < begin) return 0;
  const size_t rest = config.steps > begin ? config.steps - begin : 1;
  return std::min(1.0, double(step - begin) / double(rest));
}

}  // namespace

Schedule ParseSchedule(const std::string& name) {
  for (size_t i = 0; i < std::size(kSchedules); i++)
    if (name == kSchedules[i]) return Schedule(i);
  throw BadInput("--schedule " + name + " is unknown; use cosine, linear, constant or wsd");
}

WarmupShape ParseWarmupShape(const std::string& name) {
  for (size_t i = 0; i < std::size(kShapes); i++)
    if (name == kShapes[i]) return WarmupShape(i);
  throw BadInput("--warmup-shape " + name + " is unknown; use linear or log");
}

const char* NameOf(Schedule schedule) {
  return kSchedules[size_t(schedule)];
}

const char* NameOf(WarmupShape shape) {
  return kShapes[size_t(shape)];
}

LrScaling ParseLrScaling(const std::string& name) {
  for (size_t i = 0; i < std::size(kScalings); i++)
    if (name == kScalings[i]) return LrScaling(i);
  throw BadInput("--lr-scaling " + name + " is unknown; use none, linear or sqrt");
}

const char* NameOf(LrScaling scaling) {
  return kScalings[size_t(scaling)];
}

double PeakRate(const TrainConfig& config) {
  if (config.lr_scaling == LrScaling::kNone) return config.lr;
  const double ratio = double(config.global_batch) / double(config.lr_batch);
  return config.lr * (config.lr_scaling == LrScaling::kLinear ? ratio : std::sqrt(ratio));
}

double LearningRate(const TrainConfig& config, size_t step) {
  const double peak = PeakRate(config);
  if (step < config.warmup) {
    // In this order of operations the bits of runs from before there was a choice stay.
    if (config.warmup_from == 0 && config.warmup_shape == WarmupShape::kLinear)
      return peak * double(step + 1) / double(config.warmup);
    const double progress = WarmupProgress(config, step);
    return peak * (config.warmup_from + (1 - config.warmup_from) * progress);
  }
  const double progress = FallProgress(config, step);
  switch (config.schedule) {
    case Schedule::kConstant:
      return peak;
    case Schedule::kCosine:
      return peak *
             (config.final_rate + (1 - config.final_rate) * 0.5 * (1 + std::cos(M_PI * progress)));
    default:
      return peak * (config.final_rate + (1 - config.final_rate) * (1 - progress));
  }
}

}  // namespace weft::trainer
