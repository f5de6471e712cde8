// Two kinds of values answer two questions. Exact values have one right result in any order, which is computed here without the
// library: what checks it must not use its rounding. Real values have another result for almost every order, so equal bits mean
// equal orders. No rank needs another one's data to know what must come out.
#include "bench/weft_perf/values.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>

namespace weft::perf {
namespace {

// A 64-bit number that looks random, the same for the same x.
uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// The OCP format without infinities: the largest exponent has numbers, and only one NaN.
bool HasInfinity(const ElementType& type) {
  return type.dtype != WEFT_FLOAT8_E4M3;
}

class ExactValues {
 public:
  explicit ExactValues(const DataKey& key) : key_(key), type_(*key.type) {}

  uint64_t InputBits(size_t rank, size_t index) const;
  uint64_t ReducedBits(size_t index) const;

 private:
  weft_op_t op() const { return key_.reduction->op; }

  size_t reduced_ranks() const { return key_.reduced_ranks == 0 ? key_.ranks : key_.reduced_ranks; }

  bool is_sum() const { return op() != WEFT_PROD && op() != WEFT_MAX && op() != WEFT_MIN; }

  uint64_t Random(size_t rank, size_t index) const;
  uint64_t Turn(size_t rank, size_t index) const;
  uint64_t SmallIntegerLimit(uint64_t wanted) const;
  double Float(size_t rank, size_t index) const;
  double FloatSummand(size_t rank, size_t index) const;
  double FloatFactor(size_t rank, size_t index) const;
  int64_t Bounded(size_t rank, size_t index, uint64_t limit) const;
  uint64_t Integer(size_t rank, size_t index) const;
  uint64_t Extend(uint64_t bits) const;
  template <typename Value, typename Contribution, typename Less>
  Value Reduce(const Contribution& contribution, const Less& less) const;

  const DataKey& key_;
  const ElementType& type_;
};

uint64_t ExactValues::Random(size_t rank, size_t index) const {
  return Mix(Mix(key_.seed * 0x10001 + rank + 1) + index);
}

// The ranks in another order at every index: contributions that only a few ranks may make come
// from all of them in turn.
uint64_t ExactValues::Turn(size_t rank, size_t index) const {
  return (rank + Mix(key_.seed + index) % 65536) % key_.ranks;
}

// The smaller of `wanted` and what the type's precision holds.
uint64_t ExactValues::SmallIntegerLimit(uint64_t wanted) const {
  return std::min(wanted, (uint64_t{1} << (type_.mantissa_bits + 1)) - 1);
}

// A random integer such that the magnitudes of all ranks together do not exceed `limit`.
int64_t ExactValues::Bounded(size_t rank, size_t index, uint64_t limit) const {
  const uint64_t each = std::max<uint64_t>(1, limit / key_.ranks);
  if (Turn(rank, index) >= limit / each) return 0;
  const uint64_t random = Random(rank, index);
  if (type_.format == Format::kUnsigned) return static_cast<int64_t>(random % (each + 1));
  return static_cast<int64_t>(random % (2 * each + 1) - each);
}

// Integers below the precision, times a power of two that is the same for all ranks.
double ExactValues::FloatSummand(size_t rank, size_t index) const {
  // Factors must leave them below the precision as well.
  const int spare = IsPremulSum(*key_.reduction) ? 1 : 0;
  const uint64_t limit = uint64_t{1} << std::min(type_.mantissa_bits + 1 - spare, 24);
  const int scale = static_cast<int>(Mix(key_.seed ^ index) % 7) - 3;
  return std::ldexp(Bounded(rank, index, limit), scale);
}

// One rank's small integer times powers of two of a few other ranks: exact in any order, and within
// the range of the type (float8_e4m3 ends at 448, half at 65504).
double ExactValues::FloatFactor(size_t rank, size_t index) const {
  const uint64_t turn = Turn(rank, index);
  const uint64_t random = Random(rank, index);
  const double sign = (random & 1) != 0 ? -1 : 1;
  const uint64_t scaling_ranks = type_.size == 1 ? 4 : 8;
  if (turn == 0) return sign * (1 + (random >> 8) % SmallIntegerLimit(127));
  if (turn > scaling_ranks) return sign;
  return sign * std::ldexp(1.0, static_cast<int>((random >> 8) % 3) - 1);
}

double ExactValues::Float(size_t rank, size_t index) const {
  if (is_sum()) return FloatSummand(rank, index);
  if (op() == WEFT_PROD) return FloatFactor(rank, index);
  const uint64_t random = Random(rank, index);
  const int scale = static_cast<int>((random >> 32) % 7) - 3;
  const uint64_t limit = SmallIntegerLimit(100);
  return std::ldexp(static_cast<double>(random % (2 * limit + 1)) - static_cast<double>(limit),
                    scale);
}

// The bits of an element as a 64-bit integer of the same value.
uint64_t ExactValues::Extend(uint64_t bits) const {
  const unsigned unused = 64 - 8 * static_cast<unsigned>(type_.size);
  if (type_.format == Format::kSigned) {
    return static_cast<uint64_t>(static_cast<int64_t>(bits << unused) >> unused);
  }
  return (bits << unused) >> unused;
}

uint64_t ExactValues::Integer(size_t rank, size_t index) const {
  // The quotient of an average depends on where the sum wraps, so averaged sums do not wrap.
  if (op() == WEFT_AVG) {
    return static_cast<uint64_t>(Bounded(rank, index, type_.size == 1 ? 127 : 1 << 20));
  }
  return Extend(Random(rank, index));
}

uint64_t ExactValues::InputBits(size_t rank, size_t index) const {
  if (key_.reduction == nullptr) return Random(rank, index);
  if (type_.format == Format::kFloat) return EncodeFloat(Float(rank, index), type_);
  return Integer(rank, index);
}

// One rank's contribution after another. `less` orders values.
template <typename Value, typename Contribution, typename Less>
Value ExactValues::Reduce(const Contribution& contribution, const Less& less) const {
  Value result = contribution(0);
  for (size_t rank = 1; rank < reduced_ranks(); ++rank) {
    const Value value = contribution(rank);
    if (op() == WEFT_PROD) {
      result *= value;
    } else if (op() == WEFT_MAX) {
      result = less(result, value) ? value : result;
    } else if (op() == WEFT_MIN) {
      result = less(value, result) ? value : result;
    } else {
      result += value;
    }
  }
  return result;
}

uint64_t ExactValues::ReducedBits(size_t index) const {
  const auto factor = [&](size_t rank) {
    return IsPremulSum(*key_.reduction) ? PremulFactor(rank) : 1;
  };
  const bool average = op() == WEFT_AVG;
  if (type_.format == Format::kFloat) {
    const auto contribution = [&](size_t rank) {
      return factor(rank) * Float(rank, index);
    };
    const double result = Reduce<double>(contribution, std::less<>());
    return EncodeFloat(average ? result / reduced_ranks() : result, type_);
  }
  const auto contribution = [&](size_t rank) {
    return static_cast<uint64_t>(factor(rank)) * Integer(rank, index);
  };
  const bool is_signed = type_.format == Format::kSigned;
  const auto less = [is_signed](uint64_t a, uint64_t b) {
    return is_signed ? static_cast<int64_t>(a) < static_cast<int64_t>(b) : a < b;
  };
  const uint64_t result = Reduce<uint64_t>(contribution, less);
  return average ? static_cast<uint64_t>(static_cast<int64_t>(result) /
                                         static_cast<int64_t>(reduced_ranks()))
                 : result;
}

// Keeps products of the large numbers with small integers finite in every type.
constexpr int kLargeExponentMax = 40;

double Fraction(uint64_t random) {
  return std::ldexp(random >> 11, -53);  // [0, 1)
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

double Summand(const DataKey& key, size_t rank, size_t index, uint64_t random) {
  const uint64_t shared = Mix(key.seed ^ (index * 2 + 1));
  const uint64_t ranks = key.ranks;
  if (ranks > 2 && shared % 2 == 0) {
    const uint64_t adds = (shared >> 8) % ranks;
    const uint64_t takes = (adds + 1 + (shared >> 32) % (ranks - 1)) % ranks;
    if (rank == adds || rank == takes) {
      const double large = std::ldexp(1.0, LargeExponent(*key.type));
      return rank == adds ? large : -large;
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

uint64_t ExactBits(const DataKey& key, size_t rank, size_t index) {
  return ExactValues(key).InputBits(rank, index);
}

uint64_t ReducedBits(const DataKey& key, size_t index) {
  return ExactValues(key).ReducedBits(index);
}

uint64_t RealBits(const DataKey& key, size_t rank, size_t index) {
  const uint64_t random = Mix(Mix(key.seed + rank * 0x10001) + index);
  if (key.type->format != Format::kFloat) return random;
  if (key.reduction != nullptr && key.reduction->op == WEFT_PROD) {
    const double sign = (random & 1) != 0 ? -1 : 1;
    return EncodeFloat(sign * (0.75 + Fraction(Mix(random)) / 2), *key.type);
  }
  return EncodeFloat(Summand(key, rank, index, random), *key.type);
}

uint64_t EncodeElement(int value, const ElementType& type) {
  if (type.format == Format::kFloat) return EncodeFloat(value, type);
  return static_cast<uint64_t>(static_cast<int64_t>(value));
}

uint64_t EncodeFloat(double value, const ElementType& type) {
  const int mantissa = type.mantissa_bits;
  if (mantissa == 52) return std::bit_cast<uint64_t>(value);
  const int bias = (1 << (type.exponent_bits - 1)) - 1;
  const uint64_t sign = std::signbit(value) ? uint64_t{1} << (mantissa + type.exponent_bits) : 0;
  const double magnitude = std::fabs(value);
  if (magnitude == 0) return sign;
  // Scaled so that one unit is one unit in the last place; subnormals share the smallest exponent.
  int exponent = std::max(std::ilogb(magnitude), 1 - bias);
  auto scaled = static_cast<uint64_t>(std::nearbyint(std::ldexp(magnitude, mantissa - exponent)));
  const uint64_t one = uint64_t{1} << mantissa;
  if (scaled == 2 * one) {
    scaled = one;
    ++exponent;
  }
  const uint64_t top = ((uint64_t{1} << type.exponent_bits) - 1) << mantissa;
  if (!HasInfinity(type)) {
    const uint64_t largest = top | (one - 2);
    if (exponent > bias + 1 || (exponent == bias + 1 && scaled == 2 * one - 1)) {
      return sign | largest;
    }
  } else if (exponent > bias) {
    return sign | top;
  }
  if (scaled < one) return sign | scaled;
  return sign | (static_cast<uint64_t>(exponent + bias) << mantissa) | (scaled - one);
}

}  // namespace weft::perf
