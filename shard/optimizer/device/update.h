// The optimizers on a device: formulas, numbers and limits are those of shard/optimizer/optimizer_kernels.h, bit by bit; here is one
// thread's part of each.
//
//   UpdateByAdamW<Bfloat16>(AdamWParameters{arrays, step}, worker);
//
// Written element by element, apart from the vectors of a CPU, so that each checks the other. Multiply-adds are fused where Fma says so
// and nowhere else: nvcc is told --fmad=false, the host's compiler -ffp-contract=off.
//
// Invariants: those of comm/device/element/reduce.h; no two arrays overlap.
#pragma once

#include "comm/device/element/element.h"
#include "comm/device/element/worker.h"
#include "shard/optimizer/optimizer_arguments.h"

namespace weft::device {

// Passed by value to the kernels. `arrays` are of device memory.
template <typename StepOf>
struct UpdateParameters {
  PacketRange range;       // packets of kUpdateWidth elements
  OptimizerArrays arrays;  // the count is not looked at
  StepOf step;
  double trust_ratio;  // of LAMB and LARS
};

WEFT_INLINE float Fma(float left, float right, float more) {
#if defined(__CUDA_ARCH__)
  return __fmaf_rn(left, right, more);
#else
  return __builtin_fmaf(left, right, more);
#endif
}

WEFT_INLINE float Root(float value) {
#if defined(__CUDA_ARCH__)
  return __fsqrt_rn(value);
#else
  return __builtin_sqrtf(value);
#endif
}

WEFT_INLINE double Root(double value) {
#if defined(__CUDA_ARCH__)
  return __dsqrt_rn(value);
#else
  return __builtin_sqrt(value);
#endif
}

// Every NaN the same.
WEFT_INLINE float OneNan(float value) {
  return FloatOfBits(Float32::Narrow(value));
}

// Of float64, rounded to float32 with one NaN.
WEFT_INLINE float RoundDouble(double value) {
  return OneNan(static_cast<float>(value));
}

// What an update reads of one element, and what it makes of it. Moments that an optimizer does not have are neither read nor written.
struct Element {
  float weight;
  float first;
  float second;
};

constexpr int kUpdateWidth = 4;  // an access of 16 bytes of weights and moments

template <int kWidth>
struct ElementPackets {
  Packet<float, kWidth> weights;
  Packet<float, kWidth> first;
  Packet<float, kWidth> second;
};

template <int kWidth>
WEFT_INLINE Packet<float, kWidth> LoadFloats(const float* array, uint64_t element) {
  return LoadPacket<float, kWidth>(reinterpret_cast<const char*>(array + element));
}

template <int kWidth>
WEFT_INLINE void StoreFloats(float* array, uint64_t element, const Packet<float, kWidth>& values) {
  StorePacket(reinterpret_cast<char*>(array + element), values);
}

template <typename E, int kWidth>
WEFT_INLINE void StoreCast(void* cast, uint64_t element, const Packet<float, kWidth>& weights) {
  using Raw = typename E::Raw;
  Packet<Raw, kWidth> raw;
  WEFT_UNROLL
  for (int i = 0; i < kWidth; ++i)
    raw.at[i] = E::Narrow(weights.at[i]);
  StorePacket(static_cast<char*>(cast) + element * sizeof(Raw), raw);
}

// What an optimizer reads beside weights, and whether the moments change. Weights always do.
struct Uses {
  bool first;
  bool second;
  bool gradients;
  bool moments_change;
};

// Loads, calls update(element, gradient) for each element, stores. G: the type of gradients.
template <typename G, int kWidth, typename Update>
WEFT_INLINE void UpdateAt(const OptimizerArrays& arrays, const Uses& uses, uint64_t element,
                          Update update) {
  using Raw = typename G::Raw;
  ElementPackets<kWidth> values = {};
  Packet<Raw, kWidth> gradients = {};
  values.weights = LoadFloats<kWidth>(arrays.weights, element);
  if (uses.first) values.first = LoadFloats<kWidth>(arrays.first_moment, element);
  if (uses.second) values.second = LoadFloats<kWidth>(arrays.second_moment, element);
  if (uses.gradients) {
    gradients =
        LoadPacket<Raw, kWidth>(static_cast<const char*>(arrays.gradients) + element * sizeof(Raw));
  }
  WEFT_UNROLL
  for (int i = 0; i < kWidth; ++i) {
    Element one = {values.weights.at[i], values.first.at[i], values.second.at[i]};
    update(one, G::Widen(gradients.at[i]));
    values.weights.at[i] = one.weight;
    values.first.at[i] = one.first;
    values.second.at[i] = one.second;
  }
  if (uses.moments_change) {
    if (uses.first) StoreFloats<kWidth>(arrays.first_moment, element, values.first);
    if (uses.second) StoreFloats<kWidth>(arrays.second_moment, element, values.second);
  }
  StoreFloats<kWidth>(arrays.weights, element, values.weights);
  if (arrays.cast == nullptr) return;
  if (arrays.cast_dtype == WEFT_FLOAT32) {
    StoreCast<Float32>(arrays.cast, element, values.weights);
  } else if (arrays.cast_dtype == WEFT_FLOAT16) {
    StoreCast<Float16>(arrays.cast, element, values.weights);
  } else {
    StoreCast<Bfloat16>(arrays.cast, element, values.weights);
  }
}

template <typename G, typename StepOf, typename Update>
WEFT_INLINE void UpdateAll(const UpdateParameters<StepOf>& parameters, const Uses& uses,
                           const Worker& worker, Update update) {
  ForEachPacket<kUpdateWidth>(
      worker, parameters.range,
      [&](uint64_t element) {
        UpdateAt<G, kUpdateWidth>(parameters.arrays, uses, element, update);
      },
      [&](uint64_t element) { UpdateAt<G, 1>(parameters.arrays, uses, element, update); });
}

// ---- AdamW: in float32 with the exact remainders of its roundings, see shard/optimizer/optimizer_adamw.h ----

struct HighLow {
  float high;
  float low;
};

// gradient x factor; `gradient.low` is not zero for float64 only.
WEFT_INLINE HighLow TimesPair(const HighLow& gradient, const FloatPair& factor, bool wide) {
  const float high = gradient.high * factor.high;
  float low = Fma(gradient.high, factor.high, -high);
  low = Fma(gradient.high, factor.low, low);
  if (wide) low = Fma(gradient.low, factor.high, low);
  return {high, low};
}

WEFT_INLINE float AdamWWeight(const AdamWStep& step, float mean, float square, float weight) {
  const float root = Root(square);
  const float divisor = Fma(root, step.root_factor.high, step.epsilon.high);
  const float reciprocal = 1.0f / divisor;
  const float quotient = mean * reciprocal;
  const float root_left = Fma(-root, root, square) * step.half_root_factor;
  const float rounding = Fma(root, step.root_factor.high, -divisor) + step.epsilon.high +
                         Fma(root, step.root_factor.low, step.epsilon.low);
  const float divisor_left = Fma(root_left, reciprocal, rounding);
  float mean_left = Fma(-quotient, divisor, mean);
  mean_left = Fma(-quotient, divisor_left, mean_left);
  const float more = Fma(weight, step.decay, mean_left * reciprocal);
  return Fma(quotient + more, step.step_size, weight);
}

// Where the new weight is no number: without remainders, as that of infinity is none.
WEFT_INLINE void AdamWPlainly(const AdamWStep& step, float gradient, const Element& old,
                              Element& made) {
  const float mean = Fma(old.first, step.mean_kept.high, gradient * step.mean_new.high);
  const float root = gradient * step.root_new.high;
  const float square = Fma(root, root, old.second * step.square_kept.high);
  const float divisor = Fma(Root(square), step.root_factor.high, step.epsilon.high);
  const float quotient = Fma(old.weight, step.decay, mean / divisor);
  made.first = OneNan(mean);
  made.second = OneNan(square);
  made.weight = OneNan(Fma(quotient, step.step_size, old.weight));
}

WEFT_INLINE void AdamWElement(const AdamWStep& step, const HighLow& gradient, bool wide,
                              Element& element) {
  const Element old = element;
  const HighLow added = TimesPair(gradient, step.mean_new, wide);
  element.first = Fma(old.first, step.mean_kept.high, added.high) +
                  Fma(old.first, step.mean_kept.low, added.low);
  const HighLow root = TimesPair(gradient, step.root_new, wide);
  const float half = Fma(root.high, root.low, old.second * step.square_kept.low);
  const float kept = Fma(old.second, step.square_kept.high, half + half);
  element.second = Fma(root.high, root.high, kept);
  element.weight = AdamWWeight(step, element.first, element.second, old.weight);
  if (element.weight != element.weight) AdamWPlainly(step, gradient.high, old, element);
}

template <typename G>
WEFT_INLINE void UpdateByAdamW(const UpdateParameters<AdamWStep>& parameters,
                               const Worker& worker) {
  constexpr bool kWide = sizeof(typename G::Accumulator) == sizeof(double);
  UpdateAll<G>(parameters, {true, true, true, true}, worker,
               [&](Element& element, typename G::Accumulator gradient) {
                 HighLow parts = {static_cast<float>(gradient), 0};
                 if constexpr (kWide)
                   parts.low = static_cast<float>(gradient - static_cast<double>(parts.high));
                 AdamWElement(parameters.step, parts, kWide, element);
               });
}

// ---- The others: one expression in float64, rounded when it is stored ----

template <typename G>
WEFT_INLINE void UpdateBySgd(const UpdateParameters<SgdStep>& parameters, const Worker& worker) {
  const SgdStep& step = parameters.step;
  const bool has_momentum = parameters.arrays.first_moment != nullptr;
  UpdateAll<G>(parameters, {has_momentum, false, true, true}, worker,
               [&](Element& element, typename G::Accumulator raw_gradient) {
                 const double weight = element.weight;
                 const double gradient = static_cast<double>(raw_gradient) * step.gradient_factor +
                                         weight * step.coupled_decay;
                 double update = gradient;
                 if (has_momentum) {
                   const double momentum = element.first * step.momentum + gradient;
                   update = step.nesterov ? gradient + momentum * step.momentum : momentum;
                   element.first = RoundDouble(momentum);
                 }
                 element.weight = RoundDouble(weight * step.decay - update * step.step_size);
               });
}

// -1, 0 or 1; NaN stays NaN.
WEFT_INLINE double SignOf(double value) {
  if (value > 0) return 1;
  return value < 0 ? -1 : value;
}

template <typename G>
WEFT_INLINE void UpdateByLion(const UpdateParameters<LionStep>& parameters, const Worker& worker) {
  const LionStep& step = parameters.step;
  UpdateAll<G>(parameters, {true, false, true, true}, worker,
               [&](Element& element, typename G::Accumulator raw_gradient) {
                 const double gradient = static_cast<double>(raw_gradient) * step.gradient_factor;
                 const double mean = element.first;
                 const double sign = SignOf(mean * step.update_kept + gradient * step.update_new);
                 element.weight = RoundDouble(element.weight * step.decay - sign * step.step_size);
                 element.first = RoundDouble(mean * step.mean_kept + gradient * step.mean_new);
               });
}

// LAMB's update of one element, from moments as they are stored.
WEFT_INLINE double LambUpdate(const LambStep& step, const Element& element) {
  const double mean = element.first;
  const double square = element.second;
  return mean * step.mean_factor / (Root(square) * step.root_factor + step.epsilon) +
         element.weight * step.weight_decay;
}

// The first phase of LAMB, one element: its moments.
WEFT_INLINE void LambMoments(const LambStep& step, double raw_gradient, Element& element) {
  const double gradient = raw_gradient * step.gradient_factor;
  element.first = RoundDouble(element.first * step.mean_kept + gradient * step.mean_new);
  element.second =
      RoundDouble(element.second * step.square_kept + gradient * gradient * step.square_new);
}

WEFT_INLINE void ApplyByLamb(const UpdateParameters<LambStep>& parameters, const Worker& worker) {
  const LambStep& step = parameters.step;
  const double size = step.step_size * parameters.trust_ratio;
  UpdateAll<Float32>(parameters, {true, true, false, false}, worker, [&](Element& element, float) {
    element.weight = RoundDouble(element.weight - LambUpdate(step, element) * size);
  });
}

template <typename G>
WEFT_INLINE void UpdateByLars(const UpdateParameters<LarsStep>& parameters, const Worker& worker) {
  const LarsStep& step = parameters.step;
  const double size = step.step_size * parameters.trust_ratio;
  UpdateAll<G>(parameters, {true, false, true, true}, worker,
               [&](Element& element, typename G::Accumulator raw_gradient) {
                 const double weight = element.weight;
                 const double gradient = static_cast<double>(raw_gradient) * step.gradient_factor +
                                         weight * step.weight_decay;
                 const double momentum = element.first * step.momentum + gradient * size;
                 element.first = RoundDouble(momentum);
                 element.weight = RoundDouble(weight - momentum);
               });
}

}  // namespace weft::device
