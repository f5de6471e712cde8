// Steps whose gradients a test gives, what those of a scenario come to in double, and the update after either.
//
//   WEFT_RETURN_IF_ERROR(RunGradientStep(*context, model, [&](int unit) { ... GradReady ... }));
//   WEFT_RETURN_IF_ERROR(context->OptimizerStep(UpdateWith(0.01)).status());
//   WEFT_RETURN_IF_ERROR(context->StepEnd());
#pragma once

#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "shard/context/context.h"
#include "tests/shard/small_model.h"

namespace weft {

// A step of one micro-batch up to and with finish. `give` is called in the backward of each unit, the last one first.
absl::Status RunGradientStep(Context& context, const std::vector<ModelParam>& model,
                             const std::function<absl::Status(int unit)>& give);

// For Scenario::in_use: an infinite gradient of param 0, which is of float32 and in unit 0. It is in place before the scenario
// adds to it.
std::function<absl::Status(int unit)> InfiniteGradient(Context& context);

weft_shard_update_t UpdateWith(double learning_rate, double norm_max = 0);

// The reduced gradients of one step, by param, clipped to norm_max unless it is 0; none of float64.
std::vector<std::vector<double>> ClippedGradients(const std::vector<ModelParam>& model,
                                                  const Scenario& scenario, int step,
                                                  double norm_max);

// Of all gradients together.
double WholeNorm(const std::vector<std::vector<double>>& gradients);

}  // namespace weft
