// The bodies of the optimizer kernels but AdamW (optimizer_adamw.h), once for all instruction sets; the
// formulas are in optimizer_kernels.h.
//
// Invariants, beside those of optimizer_walk.h:
// 1. Every new value is one expression in float64 of the old values.
// 2. Everything is loaded before anything is stored, so compilers need no proof that arrays are apart.
//
// Internal linkage throughout, see comm/kernels/lanes.h.
#pragma once

#include "shard/optimizer/optimizer_isa.h"
#include "shard/optimizer/optimizer_lanes.h"
#include "shard/optimizer/optimizer_walk.h"
#include "shard/optimizer/square_blocks.h"

namespace weft {
namespace {

template <typename Lanes>
WEFT_INLINE void StoreWeights(const RegisterPlace& place, typename Lanes::Doubles values,
                              weft_dtype_t cast_dtype) {
  const auto weights = Lanes::Round(values);
  Lanes::Store(place.weights, weights);
  if (place.cast != nullptr) Lanes::StoreTyped(place.cast, weights, cast_dtype);
}

// The new moments of LAMB, in float64.
template <typename Lanes>
struct Moments {
  typename Lanes::Doubles mean;
  typename Lanes::Doubles square;

  WEFT_INLINE static Moments Next(const LambStep& step, const RegisterPlace& place,
                                  weft_dtype_t dtype) {
    const auto gradient = Lanes::LoadTyped(place.gradients, dtype) * step.gradient_factor;
    const auto mean = Lanes::Load(place.first_moment);
    const auto square = Lanes::Load(place.second_moment);
    return {mean * step.mean_kept + gradient * step.mean_new,
            square * step.square_kept + gradient * gradient * step.square_new};
  }

  // The corrected mean over the corrected root.
  WEFT_INLINE typename Lanes::Doubles Direction(const LambStep& step) const {
    return mean * step.mean_factor / (Lanes::Sqrt(square) * step.root_factor + step.epsilon);
  }
};

template <typename Lanes>
void UpdateBySgd(const SgdStep& step, const OptimizerArrays& arrays) {
  ForEachRegister<Lanes>(
      arrays, [=](const RegisterPlace& place) __attribute__((always_inline)) {
        const auto weights = Lanes::Load(place.weights);
        const auto gradient =
            Lanes::LoadTyped(place.gradients, arrays.gradient_dtype) * step.gradient_factor +
            weights * step.coupled_decay;
        auto update = gradient;
        if (place.first_moment != nullptr) {
          const auto momentum = Lanes::Load(place.first_moment) * step.momentum + gradient;
          update = step.nesterov ? gradient + momentum * step.momentum : momentum;
          Lanes::Store(place.first_moment, Lanes::Round(momentum));
        }
        StoreWeights<Lanes>(place, weights * step.decay - update * step.step_size,
                            arrays.cast_dtype);
      });
}

// -1, 0 or 1; NaN stays NaN, so that it is seen.
template <typename Lanes>
WEFT_INLINE typename Lanes::Doubles SignOf(typename Lanes::Doubles values) {
  const auto below = values < 0 ? Lanes::Fill(-1) : values;
  return values > 0 ? Lanes::Fill(1) : below;
}

template <typename Lanes>
void UpdateByLion(const LionStep& step, const OptimizerArrays& arrays) {
  ForEachRegister<Lanes>(
      arrays, [=](const RegisterPlace& place) __attribute__((always_inline)) {
        const auto gradient =
            Lanes::LoadTyped(place.gradients, arrays.gradient_dtype) * step.gradient_factor;
        const auto mean = Lanes::Load(place.first_moment);
        const auto sign = SignOf<Lanes>(mean * step.update_kept + gradient * step.update_new);
        const auto weights = Lanes::Load(place.weights) * step.decay - sign * step.step_size;
        Lanes::Store(place.first_moment,
                     Lanes::Round(mean * step.mean_kept + gradient * step.mean_new));
        StoreWeights<Lanes>(place, weights, arrays.cast_dtype);
      });
}

// LAMB's update from moments as they are stored, so that both phases see the same.
template <typename Lanes>
WEFT_INLINE typename Lanes::Doubles LambUpdate(const LambStep& step, const Moments<Lanes>& stored,
                                               typename Lanes::Doubles weights) {
  return stored.Direction(step) + weights * step.weight_decay;
}

template <typename Lanes>
void UpdateLambMoments(const LambStep& step, const OptimizerArrays& arrays, double* weight_squares,
                       double* update_squares) {
  const DefaultRounding rounding;
  const Walk walk(arrays);
  for (size_t block = 0; block < arrays.count / kSquareBlock; ++block) {
    BlockSum<Lanes> weight_sum;
    BlockSum<Lanes> update_sum;
    for (size_t row = 0; row < kSquareBlock; row += kPartials) {
#pragma GCC unroll 16
      for (int part = 0; part < BlockSum<Lanes>::kRegisters; ++part) {
        const RegisterPlace place = walk.At(block * kSquareBlock + row + part * Lanes::kWidth);
        const auto next = Moments<Lanes>::Next(step, place, arrays.gradient_dtype);
        const auto mean = Lanes::Round(next.mean);
        const auto square = Lanes::Round(next.square);
        Lanes::Store(place.first_moment, mean);
        Lanes::Store(place.second_moment, square);
        const Moments<Lanes> stored = {Lanes::Widen(mean), Lanes::Widen(square)};
        const auto weights = Lanes::Load(place.weights);
        weight_sum.Add(part, weights);
        update_sum.Add(part, LambUpdate<Lanes>(step, stored, weights));
      }
    }
    weight_squares[block] = weight_sum.Fold();
    update_squares[block] = update_sum.Fold();
  }
}

template <typename Lanes>
void ApplyLambUpdate(const LambStep& step, double trust_ratio, const OptimizerArrays& arrays) {
  const double size = step.step_size * trust_ratio;
  ForEachRegister<Lanes>(
      arrays, [=](const RegisterPlace& place) __attribute__((always_inline)) {
        const Moments<Lanes> stored = {Lanes::Load(place.first_moment),
                                       Lanes::Load(place.second_moment)};
        const auto weights = Lanes::Load(place.weights);
        const auto update = LambUpdate<Lanes>(step, stored, weights);
        StoreWeights<Lanes>(place, weights - update * size, arrays.cast_dtype);
      });
}

template <typename Lanes>
void UpdateByLars(const LarsStep& step, double trust_ratio, const OptimizerArrays& arrays) {
  const double size = step.step_size * trust_ratio;
  ForEachRegister<Lanes>(
      arrays, [=](const RegisterPlace& place) __attribute__((always_inline)) {
        const auto weights = Lanes::Load(place.weights);
        const auto gradient =
            Lanes::LoadTyped(place.gradients, arrays.gradient_dtype) * step.gradient_factor +
            weights * step.weight_decay;
        const auto momentum = Lanes::Load(place.first_moment) * step.momentum + gradient * size;
        Lanes::Store(place.first_moment, Lanes::Round(momentum));
        StoreWeights<Lanes>(place, weights - momentum, arrays.cast_dtype);
      });
}

template <typename Lanes>
void ScaleValues(double factor, weft_dtype_t dtype, char* values, size_t count) {
  const DefaultRounding rounding;
  const size_t bytes = BytesOf(dtype);
  const auto scale = [=](char* at) __attribute__((always_inline)) {
    const auto scaled = Lanes::LoadTyped(at, dtype) * factor;
    if (dtype == WEFT_FLOAT64) {
      StoreAs(at, scaled);
    } else {
      Lanes::StoreTyped(at, Lanes::Round(scaled), dtype);
    }
  };
  size_t i = 0;
  for (; i + Lanes::kWidth <= count; i += Lanes::kWidth)
    scale(values + i * bytes);
  if (i == count) return;
  char rest[8 * Lanes::kWidth] = {};
  __builtin_memcpy(rest, values + i * bytes, (count - i) * bytes);
  scale(rest);
  __builtin_memcpy(values + i * bytes, rest, (count - i) * bytes);
}

}  // namespace
}  // namespace weft
