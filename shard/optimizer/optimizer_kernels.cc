#include "shard/optimizer/optimizer_kernels.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "comm/kernels/dtype.h"

namespace weft {
namespace {

// Blocks whose sums are waiting to be added: bounds the stack.
constexpr size_t kBlocksAtOnce = 64;

bool IsWeightDtype(weft_dtype_t dtype) {
  return dtype == WEFT_FLOAT32 || dtype == WEFT_BFLOAT16 || dtype == WEFT_FLOAT16;
}

void CheckArrays(const OptimizerArrays& arrays) {
  WEFT_CHECK(IsWeightDtype(arrays.gradient_dtype) || arrays.gradient_dtype == WEFT_FLOAT64);
  WEFT_CHECK(arrays.cast == nullptr || IsWeightDtype(arrays.cast_dtype));
}

// `count` elements from `first` of every array, without the cast.
OptimizerArrays PartOf(const OptimizerArrays& arrays, size_t first, size_t count) {
  const char* const gradients = static_cast<const char*>(arrays.gradients);
  return {.weights = arrays.weights + first,
          .first_moment = arrays.first_moment + first,
          .second_moment = arrays.second_moment + first,
          .gradients = gradients + first * DtypeSize(arrays.gradient_dtype),
          .gradient_dtype = arrays.gradient_dtype,
          .count = count};
}

void AddBlocks(const OptimizerKernels& kernels, const LambStep& step, const OptimizerArrays& arrays,
               LambSums& sums) {
  double weights[kBlocksAtOnce];
  double updates[kBlocksAtOnce];
  kernels.lamb_moments(step, arrays, weights, updates);
  for (size_t block = 0; block < arrays.count / kSquareBlock; ++block) {
    sums.weights.Add(weights[block]);
    sums.updates.Add(updates[block]);
  }
}

// Only elements [begin, begin + part.count) of the block are here. The others count as zeros, whose squares change no
// sum.
void AddPartOfBlock(const OptimizerKernels& kernels, const LambStep& step,
                    const OptimizerArrays& part, size_t begin, LambSums& sums) {
  float weights[kSquareBlock] = {};
  float first_moment[kSquareBlock] = {};
  float second_moment[kSquareBlock] = {};
  char gradients[kSquareBlock * sizeof(double)] = {};
  const size_t gradient_bytes = DtypeSize(part.gradient_dtype);
  std::memcpy(weights + begin, part.weights, part.count * sizeof(float));
  std::memcpy(first_moment + begin, part.first_moment, part.count * sizeof(float));
  std::memcpy(second_moment + begin, part.second_moment, part.count * sizeof(float));
  std::memcpy(gradients + begin * gradient_bytes, part.gradients, part.count * gradient_bytes);
  AddBlocks(kernels, step,
            {.weights = weights,
             .first_moment = first_moment,
             .second_moment = second_moment,
             .gradients = gradients,
             .gradient_dtype = part.gradient_dtype,
             .count = kSquareBlock},
            sums);
  std::memcpy(part.first_moment, first_moment + begin, part.count * sizeof(float));
  std::memcpy(part.second_moment, second_moment + begin, part.count * sizeof(float));
}

}  // namespace

const OptimizerKernels& KernelsOf(Isa isa) {
  return *ForIsa(isa, []<Isa kIsa>() { return &KernelsFor<kIsa>(); });
}

void UpdateAdamW(Isa isa, const AdamWStep& step, const OptimizerArrays& arrays) {
  CheckArrays(arrays);
  WEFT_CHECK(arrays.first_moment != nullptr && arrays.second_moment != nullptr);
  KernelsOf(isa).adamw(step, arrays);
}

void UpdateSgd(Isa isa, const SgdStep& step, const OptimizerArrays& arrays) {
  CheckArrays(arrays);
  WEFT_CHECK(arrays.first_moment != nullptr || step.momentum == 0);
  KernelsOf(isa).sgd(step, arrays);
}

void UpdateLion(Isa isa, const LionStep& step, const OptimizerArrays& arrays) {
  CheckArrays(arrays);
  KernelsOf(isa).lion(step, arrays);
}

void UpdateLambMoments(Isa isa, const LambStep& step, const OptimizerArrays& arrays,
                       uint64_t first_index, LambSums& sums) {
  CheckArrays(arrays);
  const OptimizerKernels& kernels = KernelsOf(isa);
  for (size_t done = 0; done < arrays.count;) {
    const size_t begin = (first_index + done) % kSquareBlock;
    const size_t rest = arrays.count - done;
    if (begin != 0 || rest < kSquareBlock) {
      const size_t count = std::min(kSquareBlock - begin, rest);
      AddPartOfBlock(kernels, step, PartOf(arrays, done, count), begin, sums);
      done += count;
    } else {
      const size_t blocks = std::min(rest / kSquareBlock, kBlocksAtOnce);
      AddBlocks(kernels, step, PartOf(arrays, done, blocks * kSquareBlock), sums);
      done += blocks * kSquareBlock;
    }
  }
}

void ApplyLamb(Isa isa, const LambStep& step, double trust_ratio, const OptimizerArrays& arrays) {
  CheckArrays(arrays);
  KernelsOf(isa).lamb_apply(step, trust_ratio, arrays);
}

void UpdateLars(Isa isa, const LarsStep& step, double trust_ratio, const OptimizerArrays& arrays) {
  CheckArrays(arrays);
  KernelsOf(isa).lars(step, trust_ratio, arrays);
}

void ScaleGradients(Isa isa, double factor, weft_dtype_t dtype, void* gradients, size_t count) {
  WEFT_CHECK(IsWeightDtype(dtype) || dtype == WEFT_FLOAT64);
  if (factor == 1) return;
  KernelsOf(isa).scale(factor, dtype, static_cast<char*>(gradients), count);
}

}  // namespace weft
