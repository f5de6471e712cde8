// The body of AdamW, once for all instruction sets; the formula is in optimizer_kernels.h.
//
// In float32, because conversions and the divider make float64 twice as slow as the memory (docs/perf/optimizer.md).
// What a rounding loses is exact where a fused multiply-add can say it, and is added further on:
//   moments   products as high + low, sums rounded twice: within 1 ulp;
//   weight    m / (sqrt(v) c + eps) as product with a reciprocal, then one Newton step with the exact remainders
//             of product, divisor and root: what is left is the rounding of the quotient with the decay, and of the
//             new weight: within 1.5 ulp of the larger of old and new weight.
// The step size is 2^k x mantissa, and the mantissa is in the divisor: one scalar less to round.
//
// Invariant: the same operations, each rounded once, on every instruction set; none is left to the compiler to
// fuse (-ffp-contract=off).
//
// Internal linkage throughout, see comm/kernels/lanes.h.
#pragma once

#include "shard/optimizer/optimizer_walk.h"
#include "shard/optimizer/single_lanes.h"

namespace weft {
namespace {

// What a step makes of the elements of one register.
template <typename Lanes>
struct AdamWNumbers {
  using Floats = typename Lanes::Floats;

  Floats mean;
  Floats square;
  Floats weights;

  WEFT_INLINE static Floats Fma(Floats left, float right, Floats more) {
    return Lanes::Fma(left, Lanes::Fill(right), more);
  }
};

// Gradients as high + low; low is zero but for float64.
template <typename Lanes>
struct Gradients {
  typename Lanes::Floats high;
  typename Lanes::Floats low;
};

template <typename Lanes, bool kWide>
WEFT_INLINE Gradients<Lanes> LoadGradients(const char* from, weft_dtype_t dtype) {
  using Floats = typename Lanes::Floats;
  if constexpr (!kWide) return {Lanes::LoadTyped(from, dtype), Floats{}};
  const auto doubles = LoadAs<typename Lanes::Doubles>(from);
  const auto high = Lanes::RoundDoubles(doubles);
  return {high, Lanes::RoundDoubles(doubles - Lanes::WidenToDoubles(high))};
}

// gradients x factor, as high + low.
template <typename Lanes, bool kWide>
WEFT_INLINE Gradients<Lanes> Scaled(const Gradients<Lanes>& gradients, const FloatPair& factor) {
  using Numbers = AdamWNumbers<Lanes>;
  const auto high = gradients.high * factor.high;
  auto low = Numbers::Fma(gradients.high, factor.high, -high);
  low = Numbers::Fma(gradients.high, factor.low, low);
  if constexpr (kWide) low = Numbers::Fma(gradients.low, factor.high, low);
  return {high, low};
}

// The new weights from the new moments.
template <typename Lanes>
WEFT_INLINE typename Lanes::Floats NextWeights(const AdamWStep& step, typename Lanes::Floats mean,
                                               typename Lanes::Floats square,
                                               typename Lanes::Floats weights) {
  using Numbers = AdamWNumbers<Lanes>;
  const auto root = Lanes::Sqrt(square);
  const auto divisor = Numbers::Fma(root, step.root_factor.high, Lanes::Fill(step.epsilon.high));
  const auto reciprocal = 1.0f / divisor;
  const auto quotient = mean * reciprocal;
  // What the divisor lacks: half of the root's remainder over the root, and its own rounding.
  const auto root_left = Lanes::Fma(-root, root, square) * step.half_root_factor;
  const auto rounding = Numbers::Fma(root, step.root_factor.high, -divisor) + step.epsilon.high +
                        Numbers::Fma(root, step.root_factor.low, Lanes::Fill(step.epsilon.low));
  const auto divisor_left = Lanes::Fma(root_left, reciprocal, rounding);
  auto mean_left = Lanes::Fma(-quotient, divisor, mean);
  mean_left = Lanes::Fma(-quotient, divisor_left, mean_left);
  const auto more = Numbers::Fma(weights, step.decay, mean_left * reciprocal);
  return Numbers::Fma(quotient + more, step.step_size, weights);
}

template <typename Lanes, bool kWide>
WEFT_INLINE AdamWNumbers<Lanes> Next(const AdamWStep& step, const Gradients<Lanes>& gradients,
                                     const AdamWNumbers<Lanes>& old) {
  using Numbers = AdamWNumbers<Lanes>;
  const auto added = Scaled<Lanes, kWide>(gradients, step.mean_new);
  const auto mean = Numbers::Fma(old.mean, step.mean_kept.high, added.high) +
                    Numbers::Fma(old.mean, step.mean_kept.low, added.low);
  const auto root = Scaled<Lanes, kWide>(gradients, step.root_new);
  const auto half = Lanes::Fma(root.high, root.low, old.square * step.square_kept.low);
  const auto kept = Numbers::Fma(old.square, step.square_kept.high, half + half);
  const auto square = Lanes::Fma(root.high, root.high, kept);
  return {mean, square, NextWeights<Lanes>(step, mean, square, old.weights)};
}

// As above without remainders, for infinite moments: the remainder of infinity is no number.
template <typename Lanes>
WEFT_INLINE AdamWNumbers<Lanes> PlainNext(const AdamWStep& step, const Gradients<Lanes>& gradients,
                                          const AdamWNumbers<Lanes>& old) {
  using Numbers = AdamWNumbers<Lanes>;
  const auto mean =
      Numbers::Fma(old.mean, step.mean_kept.high, gradients.high * step.mean_new.high);
  const auto root = gradients.high * step.root_new.high;
  const auto square = Lanes::Fma(root, root, old.square * step.square_kept.high);
  const auto divisor =
      Numbers::Fma(Lanes::Sqrt(square), step.root_factor.high, Lanes::Fill(step.epsilon.high));
  const auto quotient = Numbers::Fma(old.weights, step.decay, mean / divisor);
  return {mean, square, Numbers::Fma(quotient, step.step_size, old.weights)};
}

template <typename Lanes>
WEFT_INLINE AdamWNumbers<Lanes> LoadNumbers(const RegisterPlace& place) {
  using Floats = typename Lanes::Floats;
  return {LoadAs<Floats>(reinterpret_cast<const char*>(place.first_moment)),
          LoadAs<Floats>(reinterpret_cast<const char*>(place.second_moment)),
          LoadAs<Floats>(reinterpret_cast<const char*>(place.weights))};
}

template <typename Lanes>
WEFT_INLINE void StoreNumbers(const RegisterPlace& place, const AdamWNumbers<Lanes>& numbers,
                              weft_dtype_t cast_dtype) {
  Lanes::Store(place.first_moment, numbers.mean);
  Lanes::Store(place.second_moment, numbers.square);
  Lanes::Store(place.weights, numbers.weights);
  if (place.cast != nullptr) Lanes::StoreTyped(place.cast, numbers.weights, cast_dtype);
}

// The step where some weight is no number, which happens to no healthy model: the plain step for those, every NaN
// made the same. A moment that is NaN makes such a weight. From memory again, so that the loop keeps registers.
template <typename Lanes, bool kWide>
[[gnu::noinline, gnu::cold]] void StepCarefully(const AdamWStep& step, RegisterPlace place,
                                                weft_dtype_t gradient_dtype,
                                                weft_dtype_t cast_dtype) {
  const auto gradients = LoadGradients<Lanes, kWide>(place.gradients, gradient_dtype);
  const auto old = LoadNumbers<Lanes>(place);
  const auto next = Next<Lanes, kWide>(step, gradients, old);
  const auto plain = PlainNext<Lanes>(step, gradients, old);
  const auto wrong = next.weights != next.weights;
  StoreNumbers<Lanes>(place,
                      {Lanes::OneNan(wrong ? plain.mean : next.mean),
                       Lanes::OneNan(wrong ? plain.square : next.square),
                       Lanes::OneNan(wrong ? plain.weights : next.weights)},
                      cast_dtype);
}

// Asks for what comes 512 bytes later: seven streams are more than the prefetchers of some CPUs follow
// (docs/perf/optimizer.md). An address, not a pointer: nothing is behind the last element.
template <typename Lanes>
WEFT_INLINE void Prefetch(const RegisterPlace& place) {
  constexpr uintptr_t kAheadBytes = 512;
  if constexpr (Lanes::kWidth == 1) return;
  const void* const arrays[] = {place.weights, place.first_moment, place.second_moment,
                                place.gradients};
#pragma GCC unroll 4
  for (const void* array : arrays)
    __builtin_prefetch(
        reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(array) + kAheadBytes));
}

// The elements from `i` on in every array.
template <weft_dtype_t kGradients, bool kCasts>
WEFT_INLINE RegisterPlace PlaceAt(const OptimizerArrays& arrays, size_t i) {
  char* const cast = static_cast<char*>(arrays.cast);
  return {arrays.weights + i, arrays.first_moment + i, arrays.second_moment + i,
          static_cast<const char*>(arrays.gradients) + i * BytesOf(kGradients),
          kCasts ? cast + i * BytesOf(arrays.cast_dtype) : nullptr};
}

// One loop for each type of gradients, with and without a cast, as looking at them per register is too much beside eight
// elements; and one prefetch per cache line, not per register. The invariants are those of ForEachRegister.
template <typename Lanes, weft_dtype_t kGradients, bool kCasts>
void UpdateByAdamWFrom(const AdamWStep& step, const OptimizerArrays& given) {
  constexpr bool kWide = kGradients == WEFT_FLOAT64;
  constexpr size_t kLineFloats = 64 / sizeof(float);
  constexpr size_t kAtOnce = Lanes::kWidth == 1 ? 1 : kLineFloats;
  const DefaultRounding rounding;
  const AdamWStep own = step;  // which no store can change; nor this:
  const OptimizerArrays arrays = given;
  const auto update = [&step, own, type = arrays.cast_dtype ](const RegisterPlace& place)
      __attribute__((always_inline)) {
    const auto gradients = LoadGradients<Lanes, kWide>(place.gradients, kGradients);
    const auto next = Next<Lanes, kWide>(own, gradients, LoadNumbers<Lanes>(place));
    if (__builtin_expect(Lanes::AnyNan(next.weights), 0)) {
      StepCarefully<Lanes, kWide>(step, place, kGradients, type);
    } else {
      StoreNumbers<Lanes>(place, next, type);
    }
  };
  size_t i = 0;
  for (; i + kAtOnce <= arrays.count; i += kAtOnce) {
    Prefetch<Lanes>(PlaceAt<kGradients, kCasts>(arrays, i));
#pragma GCC unroll 2
    for (size_t more = 0; more < kAtOnce; more += Lanes::kWidth)
      update(PlaceAt<kGradients, kCasts>(arrays, i + more));
  }
  for (; i + Lanes::kWidth <= arrays.count; i += Lanes::kWidth)
    update(PlaceAt<kGradients, kCasts>(arrays, i));
  if (i == arrays.count) return;
  Remainder<Lanes> remainder(arrays, i);
  update(remainder.place());
  remainder.CopyBack();
}

template <typename Lanes, weft_dtype_t kGradients>
void UpdateByAdamWOf(const AdamWStep& step, const OptimizerArrays& arrays) {
  if (arrays.cast == nullptr) return UpdateByAdamWFrom<Lanes, kGradients, false>(step, arrays);
  UpdateByAdamWFrom<Lanes, kGradients, true>(step, arrays);
}

template <typename Lanes>
void UpdateByAdamW(const AdamWStep& step, const OptimizerArrays& arrays) {
  switch (arrays.gradient_dtype) {
    case WEFT_FLOAT32:
      return UpdateByAdamWOf<Lanes, WEFT_FLOAT32>(step, arrays);
    case WEFT_FLOAT64:
      return UpdateByAdamWOf<Lanes, WEFT_FLOAT64>(step, arrays);
    case WEFT_BFLOAT16:
      return UpdateByAdamWOf<Lanes, WEFT_BFLOAT16>(step, arrays);
    default:
      return UpdateByAdamWOf<Lanes, WEFT_FLOAT16>(step, arrays);
  }
}

}  // namespace
}  // namespace weft
