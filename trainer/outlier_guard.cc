#include "trainer/outlier_guard.h"

#include <algorithm>
#include <cmath>

namespace weft::trainer {
namespace {

constexpr uint64_t kStepsMin = 20;
constexpr double kWeightMin = 1.0 / 50;

// The first steps count alike, then the last ones more.
void Add(double value, double weight, double& mean, double& variance) {
  const double difference = value - mean;
  mean += weight * difference;
  variance = (1 - weight) * (variance + weight * difference * difference);
}

bool StandsOut(double value, double deviations, double mean, double variance) {
  return value - mean > deviations * std::sqrt(variance);
}

}  // namespace

bool IsOutlier(const StepStatistics& s, double deviations, double loss, double norm) {
  if (s.count < kStepsMin) return false;
  return StandsOut(loss, deviations, s.loss_mean, s.loss_variance) ||
         StandsOut(norm, deviations, s.norm_mean, s.norm_variance);
}

StepStatistics After(const StepStatistics& statistics, double loss, double norm) {
  StepStatistics after = statistics;
  after.count++;
  const double weight = std::max(kWeightMin, 1 / double(after.count));
  Add(loss, weight, after.loss_mean, after.loss_variance);
  Add(norm, weight, after.norm_mean, after.norm_variance);
  return after;
}

}  // namespace weft::trainer
