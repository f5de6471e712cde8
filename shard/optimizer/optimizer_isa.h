// What is compiled once for each instruction set (optimizer_isa.cc), for optimizer_kernels.cc and sum_squares.cc. Only to
// be called on a CPU that has the instruction set. Light, for the reason in optimizer_arguments.h.
#pragma once

#include "comm/kernels/isa.h"
#include "shard/optimizer/optimizer_arguments.h"

namespace weft {

// Sums of squares are taken over blocks of this many elements, which start at multiples of it.
constexpr size_t kSquareBlock = 128;

struct OptimizerKernels {
  void (*adamw)(const AdamWStep& step, const OptimizerArrays& arrays);
  void (*sgd)(const SgdStep& step, const OptimizerArrays& arrays);
  void (*lion)(const LionStep& step, const OptimizerArrays& arrays);
  // Takes whole blocks: count is a multiple of kSquareBlock. Element b of the results is the sum of squares of
  // the weights, and of the update, over block b.
  void (*lamb_moments)(const LambStep& step, const OptimizerArrays& arrays, double* weight_squares,
                       double* update_squares);
  void (*lamb_apply)(const LambStep& step, double trust_ratio, const OptimizerArrays& arrays);
  void (*lars)(const LarsStep& step, double trust_ratio, const OptimizerArrays& arrays);
  // Multiplies `count` float32, float64, bfloat16 or float16 in place.
  void (*scale)(double factor, weft_dtype_t dtype, char* values, size_t count);
  // Sums of squares of `blocks` whole blocks of float32, float64, bfloat16 or float16, one result for each.
  void (*square_blocks)(const char* values, weft_dtype_t dtype, size_t blocks, double* squares);
};

template <Isa kIsa>
const OptimizerKernels& KernelsFor();

// As KernelsFor, where `isa` is known only at run time.
const OptimizerKernels& KernelsOf(Isa isa);

}  // namespace weft
