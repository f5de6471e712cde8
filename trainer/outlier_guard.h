// Steps that stand out: whose loss or gradient norm lies many deviations above those of the steps before, as a broken document or a
// rank's bad memory makes them.
//
//   if (IsOutlier(stats, 6, record.loss, norm)) drop the gradients;  else stats = After(stats, record.loss, norm);
//
// All ranks have the same loss and norm, so they decide alike. Thread-safety: values.
#ifndef WEFT_TRAINER_OUTLIER_GUARD_H_
#define WEFT_TRAINER_OUTLIER_GUARD_H_

#include <cstdint>

namespace weft::trainer {

// Of the steps so far, of which later ones count more: moving means with a weight of 1/50 for the last one.
struct StepStatistics {
  uint64_t count = 0;
  double loss_mean = 0, loss_variance = 0;
  double norm_mean = 0, norm_variance = 0;

  bool operator==(const StepStatistics&) const = default;
};

// Whether one of both is more than `deviations` above its mean. Never before there are 20 steps.
bool IsOutlier(const StepStatistics& statistics, double deviations, double loss, double norm);

StepStatistics After(const StepStatistics& statistics, double loss, double norm);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_OUTLIER_GUARD_H_
