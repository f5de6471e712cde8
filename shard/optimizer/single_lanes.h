// A few neighbouring elements of memory as float32 in a register, with fused multiply-add: how AdamW computes.
//
//   using Lanes = SingleLanes<16>;                                // AVX-512: 16 floats
//   auto value = Lanes::LoadTyped(gradients, WEFT_BFLOAT16);      // exact
//   value = Lanes::Fma(value, factor, Lanes::Sqrt(value));        // one rounding each
//   Lanes::Store(weights, value);
//
// Element i of memory is always lane i. Widths 1 (plain C++), 8 (AVX2 with FMA) and 16 (AVX-512) give the same
// bits: every operation is one correctly rounded IEEE operation. Width 4 has the conversions only, for the
// lanes of float64 (optimizer_lanes.h). Internal linkage throughout for the reason given in
// comm/kernels/lanes.h; included only by the translation units of one instruction set each.
#pragma once

#include "weft/types.h"

#include "comm/kernels/lanes.h"

namespace weft {
namespace {

inline constexpr uint32_t kQuietNanBits = 0x7fc00000u;

// Each element as a T, rounded to nearest.
template <typename T, int kWidth, typename V>
WEFT_INLINE Vector<T, kWidth> Convert(V values) {
  if constexpr (kWidth == 1) {
    return static_cast<T>(values);
  } else {
    return __builtin_convertvector(values, Vector<T, kWidth>);
  }
}

// What differs between the instruction sets.
template <int kWidth>
struct SingleConversions;

template <>
struct SingleConversions<1> {
  WEFT_INLINE static uint32_t WordsOf(uint16_t halves) { return halves; }

  WEFT_INLINE static uint16_t HalvesOf(uint32_t words) { return static_cast<uint16_t>(words); }

  WEFT_INLINE static float FloatsOfHalves(uint16_t halves) { return FloatOfHalf(halves); }

  WEFT_INLINE static uint16_t RoundToHalves(float values) { return HalfOfFloat(values); }

  WEFT_INLINE static bool AnyNan(float values) { return values != values; }

  WEFT_INLINE static float Sqrt(float values) { return __builtin_sqrtf(values); }

  // left x right + more, rounded once.
  WEFT_INLINE static float Fma(float left, float right, float more) {
#if defined(__FP_FAST_FMAF)
    return __builtin_fmaf(left, right, more);
#else
    // The product is exact in float64. The sum is rounded to odd there, so that rounding it once more, to
    // float32, is the same as rounding the exact sum (Boldo, Melquiond: When double rounding is odd, 2004).
    const double product = static_cast<double>(left) * right;
    const double sum = product + more;
    const double added = sum - product;
    const double lost = (product - (sum - added)) + (more - added);
    auto bits = __builtin_bit_cast(uint64_t, sum);
    if ((lost < 0 || lost > 0) && (bits & 1) == 0) bits += (lost > 0) == (sum > 0) ? 1 : -1;
    return static_cast<float>(__builtin_bit_cast(double, bits));
#endif
  }
};

#if defined(__AVX2__)
template <>
struct SingleConversions<4> {
  using Floats = Vector<float, 4>;
  using Words = Vector<uint32_t, 4>;
  using Halves = Vector<uint16_t, 4>;

  WEFT_INLINE static Words WordsOf(Halves halves) {
    return __builtin_bit_cast(Words, _mm_cvtepu16_epi32(InRegister(halves)));
  }

  WEFT_INLINE static Halves HalvesOf(Words words) {
    const auto integers = __builtin_bit_cast(__m128i, words);
    return InMemory(_mm_packus_epi32(integers, integers));
  }

  WEFT_INLINE static Floats FloatsOfHalves(Halves halves) {
    return static_cast<Floats>(_mm_cvtph_ps(InRegister(halves)));
  }

  WEFT_INLINE static Halves RoundToHalves(Floats values) {
    return InMemory(_mm_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT));
  }

 private:
  WEFT_INLINE static __m128i InRegister(Halves halves) {
    return _mm_cvtsi64_si128(__builtin_bit_cast(int64_t, halves));
  }

  WEFT_INLINE static Halves InMemory(__m128i value) {
    return __builtin_bit_cast(Halves, _mm_cvtsi128_si64(value));
  }
};

template <>
struct SingleConversions<8> {
  using Floats = Vector<float, 8>;
  using Words = Vector<uint32_t, 8>;
  using Halves = Vector<uint16_t, 8>;

  WEFT_INLINE static Words WordsOf(Halves halves) {
    return __builtin_bit_cast(Words, _mm256_cvtepu16_epi32(__builtin_bit_cast(__m128i, halves)));
  }

  WEFT_INLINE static Halves HalvesOf(Words words) {
    const auto integers = __builtin_bit_cast(__m256i, words);
    return __builtin_bit_cast(Halves, _mm_packus_epi32(_mm256_castsi256_si128(integers),
                                                       _mm256_extracti128_si256(integers, 1)));
  }

  WEFT_INLINE static Floats FloatsOfHalves(Halves halves) {
    return static_cast<Floats>(_mm256_cvtph_ps(__builtin_bit_cast(__m128i, halves)));
  }

  WEFT_INLINE static Halves RoundToHalves(Floats values) {
    return __builtin_bit_cast(Halves, _mm256_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT));
  }

  WEFT_INLINE static bool AnyNan(Floats values) {
    return _mm256_movemask_ps(_mm256_cmp_ps(values, values, _CMP_UNORD_Q)) != 0;
  }

  WEFT_INLINE static Floats Sqrt(Floats values) {
    return static_cast<Floats>(_mm256_sqrt_ps(values));
  }

  WEFT_INLINE static Floats Fma(Floats left, Floats right, Floats more) {
    return static_cast<Floats>(_mm256_fmadd_ps(left, right, more));
  }
};
#endif

#if defined(__AVX512VL__)
template <>
struct SingleConversions<16> {
  using Floats = Vector<float, 16>;
  using Words = Vector<uint32_t, 16>;
  using Halves = Vector<uint16_t, 16>;

  WEFT_INLINE static Words WordsOf(Halves halves) {
    return __builtin_bit_cast(Words, _mm512_cvtepu16_epi32(__builtin_bit_cast(__m256i, halves)));
  }

  WEFT_INLINE static Halves HalvesOf(Words words) {
    return __builtin_bit_cast(Halves, _mm512_cvtepi32_epi16(__builtin_bit_cast(__m512i, words)));
  }

  WEFT_INLINE static Floats FloatsOfHalves(Halves halves) {
    return static_cast<Floats>(_mm512_cvtph_ps(__builtin_bit_cast(__m256i, halves)));
  }

  WEFT_INLINE static Halves RoundToHalves(Floats values) {
    return __builtin_bit_cast(Halves, _mm512_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT));
  }

  WEFT_INLINE static bool AnyNan(Floats values) {
    return _mm512_cmp_ps_mask(values, values, _CMP_UNORD_Q) != 0;
  }

  WEFT_INLINE static Floats Sqrt(Floats values) {
    return static_cast<Floats>(_mm512_sqrt_ps(values));
  }

  WEFT_INLINE static Floats Fma(Floats left, Floats right, Floats more) {
    return static_cast<Floats>(_mm512_fmadd_ps(left, right, more));
  }
};
#endif

template <int kWidthOf>
struct SingleLanes : SingleConversions<kWidthOf> {
  using Conversions = SingleConversions<kWidthOf>;
  using Floats = Vector<float, kWidthOf>;
  using Doubles = Vector<double, kWidthOf>;
  using Words = Vector<uint32_t, kWidthOf>;
  using Halves = Vector<uint16_t, kWidthOf>;
  static constexpr int kWidth = kWidthOf;

  // float32, bfloat16 or float16 of memory; exact.
  WEFT_INLINE static Floats LoadTyped(const char* from, weft_dtype_t dtype) {
    if (dtype == WEFT_FLOAT32) return LoadAs<Floats>(from);
    const auto halves = LoadAs<Halves>(from);
    if (dtype == WEFT_FLOAT16) return Conversions::FloatsOfHalves(halves);
    return __builtin_bit_cast(Floats, static_cast<Words>(Conversions::WordsOf(halves) << 16));
  }

  // To nearest.
  WEFT_INLINE static Floats RoundDoubles(Doubles values) { return Convert<float, kWidth>(values); }

  WEFT_INLINE static Doubles WidenToDoubles(Floats values) {
    return Convert<double, kWidth>(values);
  }

  // By subtraction, which keeps -0.
  WEFT_INLINE static Floats Fill(float value) { return value - Floats{}; }

  // Every NaN the same.
  WEFT_INLINE static Floats OneNan(Floats floats) {
    const Words bits =
        floats != floats ? Words{} + kQuietNanBits : __builtin_bit_cast(Words, floats);
    return __builtin_bit_cast(Floats, bits);
  }

  WEFT_INLINE static void Store(float* to, Floats values) {
    StoreAs(reinterpret_cast<char*>(to), values);
  }

  // What OneNan gave as float32, bfloat16 or float16, rounded to nearest even.
  WEFT_INLINE static void StoreTyped(char* to, Floats values, weft_dtype_t dtype) {
    if (dtype == WEFT_FLOAT32) return StoreAs(to, values);
    if (dtype == WEFT_FLOAT16) return StoreAs(to, Conversions::RoundToHalves(values));
    // The quiet NaN survives the addition; a carry out of the mantissa is overflow.
    const auto bits = __builtin_bit_cast(Words, values);
    const auto rounded = static_cast<Words>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
    StoreAs(to, Conversions::HalvesOf(rounded));
  }
};

}  // namespace
}  // namespace weft
