// float16, bfloat16 and float8 to float32 and back, by integer arithmetic: for one element, in plain C++.
//
//   const float value = FloatOfHalf(bits);                  // exact
//   const uint16_t bits = HalfOfFloat(value);               // to nearest, ties to even
//   const uint8_t byte = Float8<E4m3>::Narrow(value);
//
// Stored NaNs are one quiet NaN per type. The float8 formats are OCP's: e4m3 has no infinity and one NaN per sign (0x7f), e5m2 is
// the upper half of a float16. Included by what is compiled for one instruction set (lanes.h, whose rules hold here), and by what
// nvcc compiles for devices.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>

#if defined(__CUDACC__)
#define WEFT_INLINE __host__ __device__ __forceinline__
#else
#define WEFT_INLINE [[gnu::always_inline]] inline
#endif

namespace weft {
namespace {

WEFT_INLINE float FloatOfBits(uint64_t bits) {
  return __builtin_bit_cast(float, static_cast<uint32_t>(bits));
}

WEFT_INLINE float FloatOfBfloat(uint16_t bits) {
  return FloatOfBits(uint32_t{bits} << 16);
}

// To nearest, ties to even, by integers as on every ISA: vcvtneps2bf16 would flush denormals. A carry
// out of the mantissa is what overflow to infinity is; NaN must not be rounded into it.
WEFT_INLINE uint16_t BfloatOfFloat(float value) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, value);
  const uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
  return value != value ? uint16_t{0x7fc0} : static_cast<uint16_t>(rounded);
}

// float16 bits -> float32, exact.
WEFT_INLINE float FloatOfHalf(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t magnitude = half & 0x7fffu;
  if (magnitude >= 0x7c00u) {  // infinity or NaN
    return __builtin_bit_cast(float, sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
  }
  if (magnitude < 0x0400u) {  // zero or denormal: a count of 2^-24
    const float value = static_cast<float>(magnitude) * 0x1p-24f;
    return __builtin_bit_cast(float, sign | __builtin_bit_cast(uint32_t, value));
  }
  return __builtin_bit_cast(float, sign | ((magnitude << 13) + (112u << 23)));
}

// float32 -> float16 bits, to nearest, ties to even.
WEFT_INLINE uint16_t HalfOfFloat(float value) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, value);
  const uint32_t sign = bits >> 16 & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return 0x7e00u;
  if (magnitude >= 0x47800000u) return static_cast<uint16_t>(sign | 0x7c00u);  // 2^16 and above
  if (magnitude >= 0x38800000u) {  // normal; a carry may make it infinity
    const uint32_t rebased = magnitude - (112u << 23);
    return static_cast<uint16_t>(sign | (rebased + 0x0fffu + (rebased >> 13 & 1u)) >> 13);
  }
  if (magnitude < 0x33000000u) return static_cast<uint16_t>(sign);  // below half of 2^-24
  const uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
  const uint32_t shift = 126u - (magnitude >> 23);  // 14..24: to a count of 2^-24
  const uint32_t count = mantissa >> shift;
  const uint32_t below_tie = (1u << (shift - 1)) - 1u;
  return static_cast<uint16_t>(sign | (mantissa + below_tie + (count & 1u)) >> shift);
}

// What tells the two formats apart. Magnitudes are bits without the sign.
struct E4m3 {
  static constexpr int kMantissaBits = 3;
  static constexpr int kBias = 7;
  static constexpr uint8_t kSpecialMin = 0x7f;  // from here on infinity or NaN
  static constexpr uint8_t kOverflow = 0x7e;    // 448: what is too large becomes this
  static constexpr uint8_t kNan = 0x7f;         // every NaN is stored so
  static constexpr float kNormalMin = 0x1p-6f;  // below it: counts of kUnit
  static constexpr float kUnit = 0x1p-9f;
  static constexpr float kHalfScale = 0x1p-8f;  // between the biases of float16 and this
  static constexpr uint16_t kHalfBits = 0xbf80;
  static constexpr uint8_t kInfinity = 0x7f;  // the bits that are 1 in all that is no number
};

struct E5m2 {
  static constexpr int kMantissaBits = 2;
  static constexpr int kBias = 15;
  static constexpr uint8_t kSpecialMin = 0x7c;
  static constexpr uint8_t kOverflow = 0x7c;  // infinity
  static constexpr uint8_t kNan = 0x7e;
  static constexpr float kNormalMin = 0x1p-14f;
  static constexpr float kUnit = 0x1p-16f;
  static constexpr float kHalfScale = 1;
  static constexpr uint16_t kHalfBits = 0xff00;
  static constexpr uint8_t kInfinity = 0x7c;
};

// Conversions in plain C++.
template <typename Format>
struct Float8 {
  static constexpr int kDropped = 23 - Format::kMantissaBits;
  static constexpr uint32_t kRebias = uint32_t{127 - Format::kBias} << 23;
  static constexpr uint32_t kBelowTie = (1u << (kDropped - 1)) - 1;
  static constexpr uint32_t kNormalMinByte = 1u << Format::kMantissaBits;
  static constexpr uint32_t kNormalMinFloat = __builtin_bit_cast(uint32_t, Format::kNormalMin);
  // Adding it leaves a count of units in the last bits, rounded to nearest even.
  static constexpr float kCounter = Format::kUnit * 0x1p23f;
  static constexpr uint32_t kCounterBits = __builtin_bit_cast(uint32_t, kCounter);

  // Exact.
  WEFT_INLINE static float Widen(uint8_t byte) {
    const uint32_t magnitude = byte & 0x7fu;
    uint32_t bits = (magnitude << kDropped) + kRebias;
    if (magnitude >= Format::kSpecialMin) {
      bits += kRebias;  // once more the same step ends at the exponent of infinity and NaN
    } else if (magnitude < kNormalMinByte) {
      // As if it were normal with one more in the exponent; that one is subtracted.
      const float raised = FloatOfBits(bits + (1u << 23));
      bits = __builtin_bit_cast(uint32_t, raised - Format::kNormalMin);
    }
    return FloatOfBits(bits | (byte & 0x80u) << 24);
  }

  // To nearest, ties to even.
  WEFT_INLINE static uint8_t Narrow(float value) {
    if (value != value) return Format::kNan;
    const uint32_t bits = __builtin_bit_cast(uint32_t, value);
    const uint32_t magnitude = bits & 0x7fffffffu;
    uint32_t rounded;
    if (magnitude < kNormalMinFloat) {
      rounded = __builtin_bit_cast(uint32_t, FloatOfBits(magnitude) + kCounter) - kCounterBits;
    } else {
      const uint32_t rebased = magnitude - kRebias;
      rounded = (rebased + kBelowTie + (rebased >> kDropped & 1u)) >> kDropped;
      if (rounded > Format::kOverflow) rounded = Format::kOverflow;
    }
    return static_cast<uint8_t>(rounded | (bits >> 24 & 0x80u));
  }
};

}  // namespace
}  // namespace weft
