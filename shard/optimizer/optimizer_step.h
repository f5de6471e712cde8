// The scalars of one optimizer step, worked out once in float64.
//
//   const double factor = GradientFactor(loss_scale, norm, /*norm_max=*/1.0);
//   const AdamWStep step = MakeAdamWStep({.learning_rate = 3e-4}, t, factor);     // t = 1, 2, ...
//   UpdateAdamW(isa, step, arrays);
//
// Every rank that works them out gets the same bits: only + - x / and square roots are used. pow() of a C
// library need not give the same on two CPUs.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>

#include "shard/optimizer/optimizer_arguments.h"

namespace weft {

struct AdamWOptions {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 1e-2;  // decoupled
};

struct SgdOptions {
  double learning_rate = 1e-3;
  double momentum = 0;
  double weight_decay = 0;
  bool nesterov = false;
  // As in AdamW: w *= 1 - lr x weight decay, apart from the momentum (SGDW). Else it is added to the
  // gradient, as torch.optim.SGD does.
  bool decoupled = false;
};

struct LionOptions {
  double learning_rate = 1e-4;
  double beta1 = 0.9;
  double beta2 = 0.99;
  double weight_decay = 0;  // decoupled
};

struct LambOptions {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-6;  // more than 0
  double weight_decay = 1e-2;
};

struct LarsOptions {
  double learning_rate = 0.1;
  double momentum = 0.9;
  double weight_decay = 1e-4;
  double coefficient = 1e-3;
};

struct MuonOptions {
  double learning_rate = 0.02;
  double momentum = 0.95;
  double weight_decay = 0;  // decoupled
  bool nesterov = false;
};

// What gradients are multiplied by to lose `loss_scale` and to have at most the norm `norm_max`; `norm` is
// that of the gradients as they are, with their scale. torch.nn.utils.clip_grad_norm_'s rule:
// min(1, norm_max / (norm + 1e-6)), of the unscaled norm. norm_max <= 0 does not clip.
double GradientFactor(double loss_scale, double norm, double norm_max);

// `step` counts from 1.
AdamWStep MakeAdamWStep(const AdamWOptions& options, int64_t step, double gradient_factor);
SgdStep MakeSgdStep(const SgdOptions& options, double gradient_factor);
LionStep MakeLionStep(const LionOptions& options, double gradient_factor);
LambStep MakeLambStep(const LambOptions& options, int64_t step, double gradient_factor);
LarsStep MakeLarsStep(const LarsOptions& options, double gradient_factor);

// The factor by which LAMB scales a parameter's update: |w| / |u|, or 1 if either is zero.
double LambTrustRatio(double weight_squares, double update_squares);

// The factor by which LARS scales a parameter's update: eta |w| / (|g| + weight decay x |w|), or 1 if
// |w| or |g| is zero. `gradient_squares` is that of the gradients as they are, before the factor.
double LarsTrustRatio(const LarsStep& step, double weight_squares, double gradient_squares);

}  // namespace weft
