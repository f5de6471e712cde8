// How fast this machine multiplies matrices of a model's shapes: what a step's speed is held
// against.
//
//   const GemmRate rate = MeasureGemmRate(config.model, rows, *matmul);      // on each rank's thread at once
//   const double share = flops_per_s / rate.peak;
//
// The products are those of Model<float>, forward and backward, through trainer/matmul.h: rounding
// to bfloat16 counts, as it does in a step. Each shape is timed a few times and its best time
// counts, so other programs disturb little. Takes about kGemmSeconds, and more only where two
// products of each shape take longer.
//
// Thread-safety: belongs to the thread of `matmul`, whose count of OpenMP threads it uses.
#ifndef WEFT_TRAINER_GEMM_RATE_H_
#define WEFT_TRAINER_GEMM_RATE_H_

#include <cstddef>
#include <cstdint>

#include "trainer/matmul.h"
#include "trainer/model_units.h"

namespace weft::trainer {

constexpr double kGemmSeconds = 0.25;

// FLOP/s of one rank.
struct GemmRate {
  double mean = 0;  // of all products of a step, each as often as it is made
  double peak = 0;  // of the fastest shape
  size_t rows =
      0;  // of the products: a micro-batch's tokens, or fewer where they would take too long
};

// `rows`: tokens of a micro-batch. It measures for `seconds`, or for two products of each shape.
GemmRate MeasureGemmRate(const ModelConfig& model, size_t rows, Matmul<float>& matmul,
                         double seconds = kGemmSeconds);

// Whether measuring takes well below a second on a core of our days, and no more than half of
// `memory_bytes`.
bool GemmRateIsCheap(const ModelConfig& model, size_t rows, uint64_t memory_bytes);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_GEMM_RATE_H_
