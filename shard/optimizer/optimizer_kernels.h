// Optimizers over a contiguous interval: unscale, clip, update, decay and cast in one pass.
//
//   const OptimizerArrays arrays = {.weights = w, .first_moment = m, .second_moment = v, .gradients = g,
//                                   .cast = gathered, .cast_dtype = WEFT_BFLOAT16, .count = n};
//   UpdateAdamW(isa, MakeAdamWStep(options, t, GradientFactor(scale, norm, norm_max)), arrays);
//
// Types: weights and moments are float32; gradients are float32, bfloat16, float16 or float64, whatever the
// param's type; `cast` is a second place for the new weights as bfloat16, float16 or float32: that of a param of 16 bits,
// whose main copy `weights` then is. The factor is unscaling and clipping in one.
//
// Numbers: AdamW computes in float32 with the exact remainders of its roundings (optimizer_adamw.h): moments and weights
// are within 2 ulp of the formula, where the weight is that of the moments as they are stored, and an ulp is one of the
// larger of old and new number. A second moment beyond float32 is infinite, and its weight then only decays. The others compute in
// float64 and round once, when they store: within 0.51 ulp, unless what is subtracted cancels to less than 2^-20 of itself.
// The cast is rounded from the new float32 weight. Every operation, fused multiply-adds among them, is one correctly
// rounded IEEE operation: results are bitwise the same for every instruction set, alignment, count and cut of an
// interval. Stored NaNs are one quiet NaN. No gradient is refused: those that are not finite make weights that are not,
// so look at the count that AddSquares gives, and leave the step out.
//
// Formulas, with g = gradient x gradient_factor, all 1 - beta and corrections as in torch.optim:
//   AdamW (Loshchilov, Hutter: Decoupled Weight Decay Regularization, ICLR 2019; torch.optim.AdamW)
//     m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g g
//     w = w (1 - lr wd) - lr / (1 - beta1^t) m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
//   SGD (Sutskever et al.: On the importance of initialization and momentum, ICML 2013; torch.optim.SGD with
//   dampening 0, whose momentum is not multiplied by lr)
//     g = g + wd w;  m = mu m + g;  u = m, or g + mu m with nesterov;  w = w - lr u
//     (decoupled: w = w (1 - lr wd) - lr u instead of the first;  without first_moment: u = g)
//   Lion (Chen et al.: Symbolic Discovery of Optimization Algorithms, 2023)
//     w = w (1 - lr wd) - lr sign(beta1 m + (1 - beta1) g);  m = beta2 m + (1 - beta2) g
//   LAMB (You et al.: Large Batch Optimization for Deep Learning, ICLR 2020), per parameter
//     m, v as AdamW's;  u = m / (1 - beta1^t) / (sqrt(v) / sqrt(1 - beta2^t) + eps) + wd w
//     w = w - lr |w| / |u| u
//   LARS (You et al.: Large Batch Training of Convolutional Networks, 2017), per parameter
//     m = mu m + lr eta |w| / (|g| + wd |w|) (g + wd w);  w = w - m
//
// LAMB and LARS need norms of whole parameters, and a rank may have only a part of one: sum first, agree on the
// sums, then apply.
//   LAMB:  UpdateLambMoments(isa, step, arrays, first_index, sums);    // writes m and v, reads w
//          ... add the words of sums over ranks ...
//          ApplyLamb(isa, step, LambTrustRatio(|w|^2, |u|^2), arrays);  // works u out again, writes w
//   LARS:  AddSquares of weights and of gradients (sum_squares.h), then
//          UpdateLars(isa, step, LarsTrustRatio(step, |w|^2, |g|^2), arrays)
//
// Thread-safety: pure functions; several threads may each update an interval of their own. An interval that begins at
// a multiple of 128 elements of arrays aligned to 64 bytes shares no cache line with its neighbour, and gives the norms of
// sum_squares.h and of LAMB the same bits as one thread; LambSums are per thread, merged at the end. No allocation.
#pragma once

#include <cstdint>

#include "comm/kernels/isa.h"
#include "shard/optimizer/exact_sum.h"
#include "shard/optimizer/optimizer_arguments.h"
#include "shard/optimizer/optimizer_isa.h"
#include "shard/optimizer/optimizer_step.h"

namespace weft {

// Sums of squares of one parameter's weights and update.
struct LambSums {
  ExactSum weights;
  ExactSum updates;
};

// One step each of an interval. AdamW needs both moments, Lion and LARS the first, SGD the first unless
// its momentum is 0: nullptr then.
void UpdateAdamW(Isa isa, const AdamWStep& step, const OptimizerArrays& arrays);
void UpdateSgd(Isa isa, const SgdStep& step, const OptimizerArrays& arrays);
void UpdateLion(Isa isa, const LionStep& step, const OptimizerArrays& arrays);

// The first phase of LAMB: updates the moments and adds to `sums`. `first_index` is the index of the first
// element in the space, as for AddSquares: the sums do not depend on cuts at multiples of kSquareBlock of
// it. The cast is not written. Neither may the interval span two parameters.
void UpdateLambMoments(Isa isa, const LambStep& step, const OptimizerArrays& arrays,
                       uint64_t first_index, LambSums& sums);
// The second phase: updates the weights. The gradients are not read.
void ApplyLamb(Isa isa, const LambStep& step, double trust_ratio, const OptimizerArrays& arrays);

// The update of LARS; see LarsTrustRatio.
void UpdateLars(Isa isa, const LarsStep& step, double trust_ratio, const OptimizerArrays& arrays);

// Multiplies gradients in place, float32, bfloat16, float16 or float64 of any alignment: in float64, rounded to float32 and
// then to their type. Does nothing for a factor of 1.
void ScaleGradients(Isa isa, double factor, weft_dtype_t dtype, void* gradients, size_t count);

}  // namespace weft
