// Numbers added to the words of an ExactSum (shard/optimizer/exact_sum.h) by many threads: a number is three limbs of a wide fixed-point
// integer, and integers may be added in any order.
//
//   AddToWords(value, [&](int word, int64_t part) { atomicAdd(&words[word], part); });
//
// Words that were so added are carried by ExactSum's constructor; there is room for 2^30 additions before.
#pragma once

#include "comm/device/element/packet.h"

namespace weft::device {

constexpr int kExactLimbs = 66;
constexpr int kExactNan = kExactLimbs;
constexpr int kExactInfinity = kExactLimbs + 1;
constexpr int kExactMinusInfinity = kExactLimbs + 2;
constexpr int kExactWords = kExactLimbs + 3;

template <typename AddPart>
WEFT_INLINE void AddToWords(double value, AddPart add) {
  const auto bits = __builtin_bit_cast(uint64_t, value);
  const uint64_t exponent = bits >> 52 & 0x7ff;
  if (exponent == 0x7ff) {
    add(value != value ? kExactNan : (value > 0 ? kExactInfinity : kExactMinusInfinity), 1);
    return;
  }
  uint64_t mantissa = bits & ((uint64_t{1} << 52) - 1);
  if (exponent != 0) mantissa |= uint64_t{1} << 52;
  const uint64_t position = exponent != 0 ? exponent - 1 : 0;  // of the mantissa's lowest bit
  const auto shift = static_cast<unsigned>(position % 32);
  const int limb = static_cast<int>(position / 32);
  const uint64_t low = mantissa << shift;
  const uint64_t high = shift == 0 ? 0 : mantissa >> (64 - shift);
  const bool negative = (bits >> 63) != 0;
  const uint64_t parts[3] = {low & 0xffffffffu, low >> 32, high};
  WEFT_UNROLL
  for (int i = 0; i < 3; ++i) {
    const auto part = static_cast<int64_t>(parts[i]);
    if (part != 0) add(limb + i, negative ? -part : part);
  }
}

}  // namespace weft::device
