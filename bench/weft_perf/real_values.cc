#include "bench/weft_perf/real_values.h"

#include <algorithm>
#include <cmath>

namespace weft::perf {
namespace {

// Keeps products of the large numbers with small integers finite in every type.
constexpr int kLargeExponentMax = 40;

double Fraction(uint64_t random) {
  return std::ldexp(static_cast<double>(random >> 11), -53);  // [0, 1)
}

// The power of two of the large numbers. Sums of them and of all ranks stay finite in the type.
int LargeExponent(const ElementType& type) {
  const int bias = (1 << (type.exponent_bits - 1)) - 1;
  return std::min(bias - 1, kLargeExponentMax);
}

// The power of two of the others: as far below as the type reaches, but for the large ones not to
// swallow all of them where sums are formed (float32; float64 for float64).
int SmallExponent(const ElementType& type) {
  const int least = 2 - (1 << (type.exponent_bits - 1));
  const int accumulator_bits = type.mantissa_bits > 23 ? 52 : 23;
  return std::max(least, LargeExponent(type) - accumulator_bits + 2);
}

double Summand(const DataKey& key, int rank, size_t index, uint64_t random) {
  const uint64_t shared = Mix(key.seed ^ (index * 2 + 1));
  const auto ranks = static_cast<uint64_t>(key.ranks);
  if (ranks > 2 && shared % 2 == 0) {
    const uint64_t adds = (shared >> 8) % ranks;
    const uint64_t takes = (adds + 1 + (shared >> 32) % (ranks - 1)) % ranks;
    const auto self = static_cast<uint64_t>(rank);
    if (self == adds || self == takes) {
      const double large = std::ldexp(1.0, LargeExponent(*key.type));
      return self == adds ? large : -large;
    }
  }
  const double sign = (random & 1) != 0 ? -1 : 1;
  if ((random >> 1) % 64 == 0) {  // a subnormal number, or the least normal one
    const int least = 2 - (1 << (key.type->exponent_bits - 1));
    return sign * std::ldexp(Fraction(Mix(random)), least);
  }
  const int spread = static_cast<int>((random >> 8) % 4);
  return sign * std::ldexp(1 + Fraction(Mix(random)), SmallExponent(*key.type) + spread);
}

}  // namespace

uint64_t RealBits(const DataKey& key, int rank, size_t index) {
  const uint64_t random = Mix(Mix(key.seed + static_cast<uint64_t>(rank) * 0x10001) + index);
  if (key.type->format != Format::kFloat) return random;
  if (key.reduction != nullptr && key.reduction->op == WEFT_PROD) {
    const double sign = (random & 1) != 0 ? -1 : 1;
    return EncodeFloat(sign * (0.75 + Fraction(Mix(random)) / 2), *key.type);
  }
  return EncodeFloat(Summand(key, rank, index, random), *key.type);
}

}  // namespace weft::perf
