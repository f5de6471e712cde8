// A few neighbouring elements of memory as float64 in a register: how optimizers but AdamW, and norms, compute.
//
//   using Lanes = WideLanes<8>;                                   // AVX-512: 8 doubles
//   auto value = Lanes::Load(weights);                            // exact
//   value = value * factor + Lanes::Sqrt(value);                  // in float64, never fused
//   Lanes::Store(weights, Lanes::Round(value));                   // rounded here, once
//
// Element i of memory is always lane i. Widths 1 (plain C++), 4 (AVX2) and 8 (AVX-512) give the same
// bits: every operation is one correctly rounded IEEE operation, and stored NaNs are one quiet NaN, as
// comm/kernels/lanes.h has it. Internal linkage throughout for the reason given there; included only by
// the translation units of one instruction set each.
#pragma once

#include "weft/types.h"

#include "shard/optimizer/single_lanes.h"

namespace weft {
namespace {

// What differs between the instruction sets: widening, which compilers do by halves, and the square root.
template <int kWidth>
struct WideConversions;

template <>
struct WideConversions<1> {
  WEFT_INLINE static double Widen(float value) { return value; }

  WEFT_INLINE static double Sqrt(double value) { return __builtin_sqrt(value); }
};

#if defined(__AVX2__)
template <>
struct WideConversions<4> {
  using Floats = Vector<float, 4>;
  using Doubles = Vector<double, 4>;

  WEFT_INLINE static Doubles Widen(Floats values) {
    return static_cast<Doubles>(_mm256_cvtps_pd(values));
  }

  WEFT_INLINE static Doubles Sqrt(Doubles values) {
    return static_cast<Doubles>(_mm256_sqrt_pd(values));
  }
};
#endif

#if defined(__AVX512VL__)
template <>
struct WideConversions<8> {
  using Floats = Vector<float, 8>;
  using Doubles = Vector<double, 8>;

  WEFT_INLINE static Doubles Widen(Floats values) {
    return static_cast<Doubles>(_mm512_cvtps_pd(values));
  }

  WEFT_INLINE static Doubles Sqrt(Doubles values) {
    return static_cast<Doubles>(_mm512_sqrt_pd(values));
  }
};
#endif

template <int kWidthOf>
struct WideLanes : WideConversions<kWidthOf> {
  using Conversions = WideConversions<kWidthOf>;
  using Singles = SingleLanes<kWidthOf>;
  using Floats = Vector<float, kWidthOf>;
  using Doubles = Vector<double, kWidthOf>;
  static constexpr int kWidth = kWidthOf;

  WEFT_INLINE static Floats Narrow(Doubles values) { return Convert<float, kWidth>(values); }

  WEFT_INLINE static Doubles Fill(double value) { return Doubles{} + value; }

  WEFT_INLINE static Doubles Load(const float* from) {
    return Conversions::Widen(LoadAs<Floats>(reinterpret_cast<const char*>(from)));
  }

  // float32, float64, bfloat16 or float16 of memory; exact.
  WEFT_INLINE static Doubles LoadTyped(const char* from, weft_dtype_t dtype) {
    if (dtype == WEFT_FLOAT64) return LoadAs<Doubles>(from);
    return Conversions::Widen(Singles::LoadTyped(from, dtype));
  }

  // To float32, nearest even, every NaN the same.
  WEFT_INLINE static Floats Round(Doubles values) { return Singles::OneNan(Narrow(values)); }

  WEFT_INLINE static void Store(float* to, Floats values) { Singles::Store(to, values); }

  // What Round gave as float32, bfloat16 or float16, rounded to nearest even.
  WEFT_INLINE static void StoreTyped(char* to, Floats values, weft_dtype_t dtype) {
    Singles::StoreTyped(to, values, dtype);
  }
};

}  // namespace
}  // namespace weft
