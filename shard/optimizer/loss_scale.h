// The factor by which a loss is multiplied so that gradients of 16 bits neither vanish nor overflow.
//
//   LossScale scale(LossScaleOptions{});                 // or LossScale::Static(1024)
//   ... backward of loss x scale.value() ...
//   const bool skip = scale.Update(nonfinite_gradients != 0);      // the same answer on every rank
//   if (!skip) UpdateAdamW(isa, MakeAdamWStep(options, t, GradientFactor(scale_before, norm, 1.0)), arrays);
//
// The rule is that of Megatron-LM's DynamicGradScaler. An overflow is a step whose gradients are not all finite:
//   overflow    good steps start again from 0, and one overflow less is tolerated; if none is left, the scale
//               is halved, and by every further overflow, until it has grown again;
//   good step   after `growth_steps` of them in a row the scale doubles and `hysteresis` overflows are
//               tolerated anew (all but the last of them without halving).
// Megatron's, not DeepSpeed's DynamicLossScaler: both do the same between the bounds, but DeepSpeed's ends the run when
// an overflow meets the least scale, and by default halves at the first overflow. Megatron has no greatest scale;
// ours stops growing there (what is tolerated is still renewed), because a scale that grows without end overflows
// float16's activations sooner or later for nothing.
//
// Ranks agree because they are given the same found_inf, which is a sum over ranks. Scales are powers of two if
// `initial` is: multiplying by them rounds nothing but denormals.
//
// Thread-safety: a value; one thread at a time writes it.
#pragma once

#include <cstdint>

#include "absl/status/status.h"

namespace weft {

struct LossScaleOptions {
  double initial = 65536;
  double least = 1;
  double greatest = 16777216;   // 2^24
  int64_t growth_steps = 1000;  // good steps in a row before the scale is doubled
  int64_t hysteresis = 2;       // overflows before it is halved
};

// INVALID_ARGUMENT, with the values, unless 0 < least <= initial <= greatest, finite, and growth_steps and
// hysteresis are at least 1.
absl::Status CheckLossScaleOptions(const LossScaleOptions& options);

class LossScale {
 public:
  // `options` must have passed CheckLossScaleOptions.
  explicit LossScale(const LossScaleOptions& options);
  // Never changes. Steps that overflow are skipped all the same.
  static LossScale Static(double value);

  // What the loss of the next step is to be multiplied by.
  double value() const { return value_; }

  // An overflow would not lower it: gradients that are not finite are no fault of the scale.
  bool at_least() const { return value_ <= options_.least; }

  // Ends a step. Returns whether it is to be skipped: weights, moments and the count of steps stay.
  bool Update(bool found_inf);

  // What Update changes, for a checkpoint.
  struct State {
    double value = 1;
    int64_t good_steps = 0;      // since the last overflow or growth
    int64_t overflows_left = 0;  // until one halves the scale
  };

  State state() const { return {value_, good_steps_, overflows_left_}; }

  // INVALID_ARGUMENT, with what is possible: a scale outside of the options' bounds, unless it is static, or a
  // negative count.
  absl::Status CheckState(const State& state) const;
  // Goes on from there. A static scale is static still, with this value. `state` must have passed CheckState.
  void SetState(const State& state);

 private:
  LossScaleOptions options_;
  double value_;
  int64_t good_steps_ = 0;  // since the last overflow or growth
  int64_t overflows_left_;  // until one halves the scale; 1 or less: the next one does
};

}  // namespace weft
