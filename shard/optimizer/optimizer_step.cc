#include "shard/optimizer/optimizer_step.h"

#include <algorithm>
#include <cmath>

namespace weft {
namespace {

// base^exponent by squaring. The error is `exponent` roundings at worst, of a power that is then next
// to nothing beside the 1 it is taken from.
double Power(double base, int64_t exponent) {
  double power = 1;
  for (; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0) power *= base;
    base *= base;
  }
  return power;
}

FloatPair PairOf(double value) {
  const auto high = static_cast<float>(value);
  return {.high = high, .low = static_cast<float>(value - high)};
}

}  // namespace

double GradientFactor(double loss_scale, double norm, double norm_max) {
  const double unscale = 1 / loss_scale;
  if (norm_max <= 0) return unscale;
  return unscale * std::min(1.0, norm_max / (norm * unscale + 1e-6));
}

AdamWStep MakeAdamWStep(const AdamWOptions& options, int64_t step, double gradient_factor) {
  int exponent = 0;
  double mantissa = std::frexp(options.learning_rate / (1 - Power(options.beta1, step)), &exponent);
  float step_size = std::ldexp(1.0f, exponent);
  if (mantissa == 0 || step_size == 0) {  // no step at all
    mantissa = 1;
    step_size = 0;
  }
  const double decay = options.learning_rate * options.weight_decay;
  const double root_factor = 1 / std::sqrt(1 - Power(options.beta2, step)) / mantissa;
  FloatPair square_kept = PairOf(options.beta2);
  square_kept.low /= 2;
  return {.mean_kept = PairOf(options.beta1),
          .mean_new = PairOf(gradient_factor * (1 - options.beta1)),
          .square_kept = square_kept,
          .root_new = PairOf(gradient_factor * std::sqrt(1 - options.beta2)),
          .root_factor = PairOf(root_factor),
          .epsilon = PairOf(options.epsilon / mantissa),
          .half_root_factor = static_cast<float>(root_factor * root_factor / 2),
          .decay = step_size == 0 ? 0 : static_cast<float>(decay / step_size),
          .step_size = -step_size};
}

SgdStep MakeSgdStep(const SgdOptions& options, double gradient_factor) {
  const double decay = options.learning_rate * options.weight_decay;
  return {.gradient_factor = gradient_factor,
          .coupled_decay = options.decoupled ? 0 : options.weight_decay,
          .decay = options.decoupled ? 1 - decay : 1,
          .momentum = options.momentum,
          .step_size = options.learning_rate,
          .nesterov = options.nesterov};
}

LionStep MakeLionStep(const LionOptions& options, double gradient_factor) {
  return {.gradient_factor = gradient_factor,
          .update_kept = options.beta1,
          .update_new = 1 - options.beta1,
          .mean_kept = options.beta2,
          .mean_new = 1 - options.beta2,
          .decay = 1 - options.learning_rate * options.weight_decay,
          .step_size = options.learning_rate};
}

LambStep MakeLambStep(const LambOptions& options, int64_t step, double gradient_factor) {
  return {.gradient_factor = gradient_factor,
          .mean_kept = options.beta1,
          .mean_new = 1 - options.beta1,
          .square_kept = options.beta2,
          .square_new = 1 - options.beta2,
          .mean_factor = 1 / (1 - Power(options.beta1, step)),
          .root_factor = 1 / std::sqrt(1 - Power(options.beta2, step)),
          .epsilon = options.epsilon,
          .weight_decay = options.weight_decay,
          .step_size = options.learning_rate};
}

LarsStep MakeLarsStep(const LarsOptions& options, double gradient_factor) {
  return {.gradient_factor = gradient_factor,
          .weight_decay = options.weight_decay,
          .momentum = options.momentum,
          .step_size = options.learning_rate,
          .coefficient = options.coefficient};
}

double LambTrustRatio(double weight_squares, double update_squares) {
  if (weight_squares == 0 || update_squares == 0) return 1;
  return std::sqrt(weight_squares) / std::sqrt(update_squares);
}

double LarsTrustRatio(const LarsStep& step, double weight_squares, double gradient_squares) {
  if (weight_squares == 0 || gradient_squares == 0) return 1;
  const double weights = std::sqrt(weight_squares);
  const double gradients = std::sqrt(gradient_squares) * std::abs(step.gradient_factor);
  return step.coefficient * weights / (gradients + step.weight_decay * weights);
}

}  // namespace weft
