// float8 elements side by side; see lanes.h, whose rules hold here.
//
//   using Lanes = Float8Lanes<E4m3, 8, false>;    // 16 float8 in memory, twice 8 float32 in registers
//
// Vectors go through float16, which the CPU converts denormals included; plain C++ converts by
// integer arithmetic (conversions.h, which has the formats).
#pragma once

#include "comm/kernels/lanes.h"

namespace weft {
namespace {

// float8 in memory, float32 in registers; kWords 0 is the plain form. kScaled: the float32 are the values
// times Format::kHalfScale, which spares a multiplication per source; only for what is linear.
template <typename Format, int kWords, bool kScaled>
struct Float8Lanes;

// The plain form.
template <typename Format, bool kScaled>
struct Float8Lanes<Format, 0, kScaled> : FloatLanes<1> {
  using Raw = uint8_t;
  static constexpr int kElementBytes = 1;

  WEFT_INLINE static Value Unpack(Raw raw) { return Float8<Format>::Widen(raw); }

  WEFT_INLINE static Raw Pack(Value value) { return Float8<Format>::Narrow(value); }
};

#if defined(__F16C__) || defined(__AVX512F__)

// One instruction set's way to 16-bit words and from there to float32.
template <int kWords>
struct HalfWords;

#if defined(__F16C__) && !defined(__AVX512F__)
template <>
struct HalfWords<8> {
  using Bytes = __m128i;
  using Words = Vector<uint16_t, 16>;
  using Pair = FloatPairLanes<8>::Value;

  WEFT_INLINE static Words SignExtend(Bytes bytes) {
    return __builtin_bit_cast(Words, _mm256_cvtepi8_epi16(bytes));
  }

  // Every word is below 256.
  WEFT_INLINE static Bytes Narrow(Words words) {
    const auto all = __builtin_bit_cast(__m256i, words);
    return _mm_packus_epi16(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
  }

  WEFT_INLINE static Pair FromHalves(Words halves) {
    const auto all = __builtin_bit_cast(__m256i, halves);
    return {_mm256_cvtph_ps(_mm256_castsi256_si128(all)),
            _mm256_cvtph_ps(_mm256_extracti128_si256(all, 1))};
  }

  template <int kRounding>
  WEFT_INLINE static Words ToHalves(Pair pair) {
    const __m128i first = _mm256_cvtps_ph(pair.first, kRounding);
    const __m128i second = _mm256_cvtps_ph(pair.second, kRounding);
    return __builtin_bit_cast(Words, _mm256_set_m128i(second, first));
  }
};
#endif

#if defined(__AVX512BW__)
template <>
struct HalfWords<16> {
  using Bytes = __m256i;
  using Words = Vector<uint16_t, 32>;
  using Pair = FloatPairLanes<16>::Value;

  WEFT_INLINE static Words SignExtend(Bytes bytes) {
    return __builtin_bit_cast(Words, _mm512_cvtepi8_epi16(bytes));
  }

  WEFT_INLINE static Bytes Narrow(Words words) {
    return _mm512_cvtepi16_epi8(__builtin_bit_cast(__m512i, words));
  }

  WEFT_INLINE static Pair FromHalves(Words halves) {
    const auto all = __builtin_bit_cast(__m512i, halves);
    return {_mm512_cvtph_ps(_mm512_castsi512_si256(all)),
            _mm512_cvtph_ps(_mm512_extracti64x4_epi64(all, 1))};
  }

  template <int kRounding>
  WEFT_INLINE static Words ToHalves(Pair pair) {
    const __m512i first = _mm512_castsi256_si512(_mm512_cvtps_ph(pair.first, kRounding));
    const __m256i second = _mm512_cvtps_ph(pair.second, kRounding);
    return __builtin_bit_cast(Words, _mm512_inserti64x4(first, second, 1));
  }
};
#endif

// The float16 of float8 times kHalfScale lie on the same grid, denormals included: an e4m3 is the bits
// 7 to 13 of one, an e5m2 the upper half. So there is one rounding rule for all numbers: at that bit.
template <typename Format, int kWords, bool kScaledOf>
struct Float8Lanes : FloatPairLanes<kWords> {
  using typename FloatPairLanes<kWords>::Value;
  using Half = HalfWords<kWords>;
  using Words = typename Half::Words;
  using Signed = Vector<int16_t, 2 * kWords>;
  using Raw = typename Half::Bytes;
  static constexpr int kWidth = 2 * kWords;
  static constexpr int kElementBytes = 1;
  static constexpr bool kMultiplies = !kScaledOf && Format::kHalfScale != 1;
  static constexpr int kDropped = 10 - Format::kMantissaBits;

  WEFT_INLINE static Value Unpack(Raw raw) {
    // The sign stands in all upper bits, also in those that belong to the exponent.
    Words halves = (Half::SignExtend(raw) << kDropped) & Format::kHalfBits;
    // NaN only: one more in the last place carries into the uppermost bit of the exponent.
    if constexpr (Format::kMantissaBits == 3) halves |= (halves + 0x0080) & 0x4000;
    const Value value = Half::FromHalves(halves);
    return kMultiplies ? Times(value, 1 / Format::kHalfScale) : value;
  }

  WEFT_INLINE static Raw Pack(Value value) {
    if constexpr (kMultiplies) value = Times(value, Format::kHalfScale);
    // Rounded to odd: of the two float16 around a value the odd one, which is no tie and on the value's
    // side of every tie. Rounding that to nearest is then the only rounding.
    const Words below = Half::template ToHalves<_MM_FROUND_TO_NEG_INF>(value);
    const Words above = Half::template ToHalves<_MM_FROUND_TO_POS_INF>(value);
    const Words halves = (below & 1) != 0 ? below : above;
    const Words magnitude = halves & 0x7fff;
    const Words tie = ((magnitude >> kDropped) & 1) + uint16_t{(1 << (kDropped - 1)) - 1};
    const Words rounded = (magnitude + tie) >> kDropped;
    const Words largest = Words{} + uint16_t{Format::kOverflow};
    const Words number = AsSigned(rounded) > AsSigned(largest) ? largest : rounded;
    const Words with_sign = number | (halves >> 15 << 7);
    const Words nan = Words{} + uint16_t{Format::kNan};
    return Half::Narrow(AsSigned(magnitude) > 0x7c00 ? nan : with_sign);
  }

 private:
  WEFT_INLINE static Signed AsSigned(Words words) { return __builtin_bit_cast(Signed, words); }

  WEFT_INLINE static Value Times(Value value, float scale) {
    return {value.first * scale, value.second * scale};
  }
};

#endif

#if defined(__AVX2__)

// For sums: float32 of the same exponent bias as the float8, that is the values times a power of two.
// Then the bits of one are a part of the bits of the other, denormals included, which lie on the same
// grid: nothing is converted. Float32 is far from its ends on the large side, and on the small side all
// sums are whole numbers of the least float8, so scaling changes no sum. Infinity and NaN get float32's
// exponent, and arithmetic does the rest. A register of bytes is four of float32, a byte of each word.
template <typename Format, int kWords>
struct Float8SumLanes {
  using Float = Vector<float, kWords>;
  using Bits = Vector<uint32_t, kWords>;
  using Halves = Vector<int16_t, 2 * kWords>;  // upper halves of float32
  using Scalar = float;
  using Raw = Bits;

  struct Value {
    Float first;
    Float second;
    Float third;
    Float fourth;
  };

  static constexpr int kWidth = 4 * kWords;
  static constexpr int kElementBytes = 1;
  static constexpr bool kFloating = true;  // but no Divide, which would round on another grid

  WEFT_INLINE static Value Unpack(Raw raw) {
    const auto bytes = __builtin_bit_cast(Halves, raw);
    const Bits odd = Widen(bytes);
    const Bits even = Widen(bytes << 8);
    return {AsFloat(even << 16), AsFloat(odd << 16), AsFloat(even & 0xffff0000u),
            AsFloat(odd & 0xffff0000u)};
  }

  WEFT_INLINE static Raw Pack(Value value) {
    const Halves even = Finished(value.first, value.third);
    const Halves odd = Finished(value.second, value.fourth);
    const Halves sign = Halves{} + int16_t{INT16_MIN};
    const Halves upper = (odd << kShift & 0x7f00) | (odd & sign);
    const Halves lower = (even >> (8 - kShift) & 0x7f) | (even >> 8 & 0x80);
    return __builtin_bit_cast(Raw, upper | lower);
  }

  template <typename Op>
  WEFT_INLINE static Value Combine(Value left, Value right) {
    return {left.first + right.first, left.second + right.second, left.third + right.third,
            left.fourth + right.fourth};
  }

 private:
  static constexpr int kShift = 1 + Format::kMantissaBits;  // from a half's upper byte to its place
  static constexpr int16_t kInfinity = 0x7f80;
  static constexpr int16_t kSpecial = Format::kInfinity << (8 - kShift);
  static constexpr int16_t kLargest = ((Format::kOverflow + 1) << (8 - kShift)) - 1;
  static constexpr int16_t kNan = Format::kNan << (8 - kShift);

  WEFT_INLINE static Float AsFloat(Bits bits) { return __builtin_bit_cast(Float, bits); }

  // The upper bytes of all halves.
  WEFT_INLINE static Bits Widen(Halves bytes) {
    constexpr auto kKept = static_cast<int16_t>(0x8000 | 0x7f << (8 - kShift));
    const Halves halves = bytes >> kShift & kKept;
    const Halves raised = halves | kInfinity;
    return __builtin_bit_cast(Bits, (halves & kSpecial) == kSpecial ? raised : halves);
  }

  // To nearest, ties to even; what is below the last place is rubbish.
  WEFT_INLINE static Bits Rounded(Float value) {
    constexpr int kDropped = 24 - kShift;
    const auto bits = __builtin_bit_cast(Bits, value);
    return bits + ((1u << (kDropped - 1)) - 1) + (bits >> kDropped & 1u);
  }

  // Two registers of float32 as one of halves, the first in the lower ones.
  WEFT_INLINE static Halves Finished(Float lower, Float upper) {
    const Bits both = Rounded(lower) >> 16 | (Rounded(upper) & 0xffff0000u);
    const auto halves = __builtin_bit_cast(Halves, both);
    const Halves magnitude = halves & 0x7fff;
    const Halves largest = Halves{} + kLargest;
    const Halves number = magnitude < largest ? magnitude : largest;
    const Halves sign = Halves{} + int16_t{INT16_MIN};
    const Halves with_sign = number | (halves & sign);
    return magnitude > kInfinity + (1 << (8 - kShift)) - 1 ? Halves{} + kNan : with_sign;
  }
};

#endif

// float8 in memory, int8 of the same order in registers, -0 just below +0: all that min and max need.
// NaNs become the one that beats every number.
template <typename Format, bool kMinimum, int kWidthOf>
struct Float8KeyLanes : IntegerLanes<int8_t, kWidthOf> {
  using Value = Vector<int8_t, kWidthOf>;
  static constexpr int8_t kMagnitude = 0x7f;
  static constexpr int8_t kNanKey = kMinimum ? -128 : 127;
  // Above it is NaN: e5m2's infinity is a number here.
  static constexpr int8_t kNumberMax = Format::kOverflow;

  // For numbers only; its own inverse.
  WEFT_INLINE static Value Swap(Value bits) {
    const auto below = static_cast<Value>(bits < 0 ? Value{} + kMagnitude : Value{});
    return static_cast<Value>(bits ^ below);
  }

  WEFT_INLINE static Value Unpack(Value bits) {
    const Value magnitude = static_cast<Value>(bits & kMagnitude);
    return static_cast<Value>(magnitude > kNumberMax ? Value{} + kNanKey : Swap(bits));
  }

  WEFT_INLINE static Value Pack(Value key) {
    constexpr int8_t kNan = Format::kNan;
    return static_cast<Value>(key == kNanKey ? Value{} + kNan : Swap(key));
  }
};

}  // namespace
}  // namespace weft
