// What an optimizer kernel is called with: arrays, and the scalars of a step. See optimizer_kernels.h for the
// calls and optimizer_step.h for how the scalars are made.
//
// Light, and free of functions: the translation units that are compiled for one instruction set include
// it, and an inline function compiled there for AVX could be linked into programs on CPUs without it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "weft/types.h"

namespace weft {

// The same contiguous interval of every array. No two may overlap; any alignment (that of the type).
struct OptimizerArrays {
  float* weights = nullptr;        // the main weights; updated
  float* first_moment = nullptr;   // momentum, or the mean of gradients; zero before step 1
  float* second_moment = nullptr;  // AdamW and LAMB: the mean of squares; zero before step 1
  const void* gradients = nullptr;
  weft_dtype_t gradient_dtype = WEFT_FLOAT32;  // or bfloat16, float16, float64
  // Receives the new weights, rounded from the new main weights: params of 16 bits. May be nullptr.
  void* cast = nullptr;
  weft_dtype_t cast_dtype = WEFT_BFLOAT16;  // or WEFT_FLOAT16, WEFT_FLOAT32
  size_t count = 0;
};

// A number as two float32: their sum is it to 2^-48.
struct FloatPair {
  float high;
  float low;
};

// The scalars of AdamW as its kernel wants them (optimizer_adamw.h); made by MakeAdamWStep. With the learning
// rate's step size lr / (1 - beta1^t) = 2^k x mantissa.
struct AdamWStep {
  FloatPair mean_kept;     // beta1
  FloatPair mean_new;      // gradient factor x (1 - beta1)
  FloatPair square_kept;   // beta2; low is half of it
  FloatPair root_new;      // gradient factor x sqrt(1 - beta2)
  FloatPair root_factor;   // 1 / sqrt(1 - beta2^t) / mantissa
  FloatPair epsilon;       // epsilon / mantissa
  float half_root_factor;  // root_factor^2 / 2
  float decay;             // lr x weight decay / 2^k
  float step_size;         // -2^k
};

struct SgdStep {
  double gradient_factor;
  double coupled_decay;  // x weight, added to the gradient
  double decay;          // x weight, apart from the gradient
  double momentum;
  double step_size;  // lr
  bool nesterov;
};

struct LionStep {
  double gradient_factor;
  double update_kept;  // beta1
  double update_new;   // 1 - beta1
  double mean_kept;    // beta2
  double mean_new;     // 1 - beta2
  double decay;        // 1 - lr x weight decay
  double step_size;    // lr
};

struct LambStep {
  double gradient_factor;  // 1 / loss scale x clip factor
  double mean_kept;        // beta1
  double mean_new;         // 1 - beta1
  double square_kept;      // beta2
  double square_new;       // 1 - beta2
  double mean_factor;      // 1 / (1 - beta1^t)
  double root_factor;      // 1 / sqrt(1 - beta2^t)
  double epsilon;
  double weight_decay;
  double step_size;  // lr, without the trust ratio
};

struct LarsStep {
  double gradient_factor;
  double weight_decay;
  double momentum;
  double step_size;    // lr
  double coefficient;  // eta
};

}  // namespace weft
