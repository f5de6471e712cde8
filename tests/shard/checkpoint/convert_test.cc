// Conversions of values, beside tables of all numbers that a type has.
#include "shard/checkpoint/convert.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "base/text.h"
#include "comm/kernels/dtype.h"
#include "gtest/gtest.h"

namespace weft::test::convert_test {
namespace {

struct Format {
  weft_dtype_t dtype;
  int exponent_bits;
  int mantissa_bits;
  bool has_infinity;
};

constexpr Format kNarrow[] = {{WEFT_FLOAT16, 5, 10, true},
                              {WEFT_BFLOAT16, 8, 7, true},
                              {WEFT_FLOAT8_E4M3, 4, 3, false},
                              {WEFT_FLOAT8_E5M2, 5, 2, true}};

double ValueOf(const Format& format, unsigned bits) {
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const unsigned mantissa = bits & ((1u << format.mantissa_bits) - 1);
  const int exponent =
      static_cast<int>(bits >> format.mantissa_bits & ((1u << format.exponent_bits) - 1));
  const int sign_bit = format.exponent_bits + format.mantissa_bits;
  const double sign = (bits >> sign_bit & 1) != 0 ? -1 : 1;
  const bool all_ones = exponent == (1 << format.exponent_bits) - 1;
  if (all_ones && format.has_infinity)
    return mantissa == 0 ? sign * std::numeric_limits<double>::infinity() : std::nan("");
  if (all_ones && mantissa == (1u << format.mantissa_bits) - 1) return std::nan("");
  const double fraction = std::ldexp(mantissa, -format.mantissa_bits);
  return sign * (exponent == 0 ? std::ldexp(fraction, 1 - bias)
                               : std::ldexp(1 + fraction, exponent - bias));
}

template <typename T>
unsigned Narrowed(T value, ElementType from, const Format& format) {
  uint16_t bits = 0;
  Convert(from, &value, format.dtype, &bits, 1);
  return bits;
}

// The bits nearest to it, by looking at its neighbours; ties to the one whose last bit is 0.
unsigned Nearest(const Format& format, double value) {
  const unsigned infinity_or_end = format.has_infinity
                                       ? ((1u << format.exponent_bits) - 1) << format.mantissa_bits
                                       : (1u << (format.exponent_bits + format.mantissa_bits)) - 2;
  const unsigned sign =
      std::signbit(value) ? 1u << (format.exponent_bits + format.mantissa_bits) : 0;
  const double magnitude = std::fabs(value);
  unsigned low = 0, high = infinity_or_end;  // magnitudes grow with bits
  while (low + 1 < high) {
    const unsigned middle = (low + high) / 2;
    (ValueOf(format, middle) <= magnitude ? low : high) = middle;
  }
  if (!format.has_infinity && magnitude >= ValueOf(format, high)) return sign | high;
  // What infinity stands for in rounding: the number that would follow.
  const double above = format.has_infinity && high == infinity_or_end
                           ? 2 * ValueOf(format, high - 1) - ValueOf(format, high - 2)
                           : ValueOf(format, high);
  const double below = ValueOf(format, low);
  if (magnitude - below < above - magnitude) return sign | low;
  if (magnitude - below > above - magnitude) return sign | high;
  return sign | ((low & 1) == 0 ? low : high);
}

TEST(Convert, EveryNarrowValueIsWidenedExactlyAndComesBack) {
  for (const Format& format : kNarrow) {
    const unsigned count = 1u << (1 + format.exponent_bits + format.mantissa_bits);
    for (unsigned bits = 0; bits < count; ++bits) {
      const double expected = ValueOf(format, bits);
      const auto narrow = static_cast<uint16_t>(bits);
      float single = 0;
      double wide = 0;
      Convert(format.dtype, &narrow, WEFT_FLOAT32, &single, 1);
      Convert(format.dtype, &narrow, WEFT_FLOAT64, &wide, 1);
      if (std::isnan(expected)) {
        ASSERT_TRUE(std::isnan(single) && std::isnan(wide)) << DtypeName(format.dtype) << bits;
        ASSERT_TRUE(std::isnan(ValueOf(format, Narrowed(single, WEFT_FLOAT32, format))));
        continue;
      }
      ASSERT_EQ(std::bit_cast<uint64_t>(wide), std::bit_cast<uint64_t>(expected))
          << DtypeName(format.dtype) << " " << bits;
      ASSERT_EQ(static_cast<double>(single), expected);
      if (std::isinf(expected) && !format.has_infinity) continue;
      ASSERT_EQ(Narrowed(single, WEFT_FLOAT32, format), bits) << DtypeName(format.dtype);
      ASSERT_EQ(Narrowed(wide, WEFT_FLOAT64, format), bits) << DtypeName(format.dtype);
    }
  }
}

TEST(Convert, RoundsOnceToNearestEven) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(StrCat("seed ", seed));
  std::mt19937_64 random(seed);
  for (const Format& format : kNarrow) {
    const unsigned end = format.has_infinity
                             ? ((1u << format.exponent_bits) - 1) << format.mantissa_bits
                             : (1u << (format.exponent_bits + format.mantissa_bits)) - 2;
    for (int i = 0; i < 20'000; ++i) {
      // Between two neighbours: anywhere, in the middle, or so near to it that float32 cannot tell.
      const auto low = static_cast<unsigned>(random() % (end - 1));
      const double below = ValueOf(format, low), above = ValueOf(format, low + 1);
      double value = below + (above - below) / 2;
      if (i % 4 == 1) value = std::nextafter(value, 0);
      if (i % 4 == 2) value = std::nextafter(value, above);
      if (i % 4 == 3) value = below + (above - below) * std::ldexp(random() >> 11, -53);
      if (random() % 2 == 0) value = -value;
      ASSERT_EQ(Narrowed(value, WEFT_FLOAT64, format), Nearest(format, value))
          << DtypeName(format.dtype) << " of " << value;
      const auto single = static_cast<float>(value);
      ASSERT_EQ(Narrowed(single, WEFT_FLOAT32, format), Nearest(format, single))
          << DtypeName(format.dtype) << " of " << single;
    }
    for (const double huge : {1e5, 1e39, 1e308, std::numeric_limits<double>::infinity()}) {
      if (format.dtype == WEFT_BFLOAT16 && huge < 1e39) continue;
      EXPECT_EQ(Narrowed(huge, WEFT_FLOAT64, format), end) << DtypeName(format.dtype) << huge;
    }
    EXPECT_EQ(Narrowed(1e-300, WEFT_FLOAT64, format), 0u);
  }
}

TEST(Convert, BetweenFloat64AndFloat32AsTheCpuDoes) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 10'000; ++i) {
    const auto bits = random();
    const auto value = std::bit_cast<double>(bits);
    float single = 0;
    Convert(WEFT_FLOAT64, &value, WEFT_FLOAT32, &single, 1);
    double back = 0;
    Convert(WEFT_FLOAT32, &single, WEFT_FLOAT64, &back, 1);
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(single) && std::isnan(back));
    } else {
      ASSERT_EQ(single, static_cast<float>(value));
      ASSERT_EQ(back, static_cast<double>(single));
    }
  }
}

TEST(Convert, FloatingPointTypesAlone) {
  for (const weft_dtype_t from : kDtypes) {
    for (const weft_dtype_t to : kDtypes)
      EXPECT_EQ(CanConvert(from, to), IsFloatingDtype(from) && IsFloatingDtype(to));
  }
  for (const char* const name : {"C64", "I16", "U16", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"}) {
    EXPECT_FALSE(CanConvert(*ElementType::OfName(name), WEFT_FLOAT32)) << name;
    EXPECT_FALSE(CanConvert(WEFT_FLOAT32, *ElementType::OfName(name))) << name;
  }
}

// Of any alignment, and many at once.
TEST(Convert, ElementByElement) {
  std::vector<char> from(1 + 8 * 100), to(1 + 2 * 100);
  for (int i = 0; i < 100; ++i) {
    const double value = i * 0.5;
    std::memcpy(&from[1 + 8 * static_cast<size_t>(i)], &value, 8);
  }
  Convert(WEFT_FLOAT64, &from[1], WEFT_BFLOAT16, &to[1], 100);
  for (int i = 0; i < 100; ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, &to[1 + 2 * static_cast<size_t>(i)], 2);
    EXPECT_EQ(ValueOf(kNarrow[1], bits), i * 0.5);
  }
}

}  // namespace
}  // namespace weft::test::convert_test
