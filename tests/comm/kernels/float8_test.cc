// float8, every value of it: conversions against a table written by hand, all pairs, and roundings of
// float32 at every exponent.

#include <bit>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "comm/kernels/custom_op.h"
#include "comm/kernels/dtype.h"
#include "comm/kernels/reduce.h"
#include "tests/comm/kernels/reference.h"

namespace weft::float8_test {
namespace {

constexpr weft_dtype_t kFloat8s[] = {WEFT_FLOAT8_E4M3, WEFT_FLOAT8_E5M2};

uint64_t OneOf(weft_dtype_t dtype) {
  return dtype == WEFT_FLOAT8_E4M3 ? 0x38 : 0x3c;
}

// What a kernel makes of a float32 accumulator: 1 times that factor.
void ExpectRounded(weft_dtype_t dtype, float value, uint64_t expected) {
  const std::vector<Elements> ones = {Elements(67, OneOf(dtype))};
  for (const Isa isa : AvailableIsas()) {
    const Elements result =
        RunKernel(isa, dtype, kOpPremulSum, ones, 0, {std::bit_cast<uint32_t>(value)});
    ASSERT_EQ(result, Elements(67, expected))
        << IsaName(isa) << " " << DtypeName(dtype) << " of " << std::hexfloat << value;
  }
}

float Widen(weft_dtype_t dtype, uint8_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(FactorBits(dtype, &bits)));
}

struct Row {
  float value;
  uint64_t bits;
};

// From OCP's "8-bit floating point specification", revision 1.0, table 1.
TEST(Float8, HasTheValuesOfTheSpecification) {
  const Row e4m3[] = {{0, 0x00},       {0x1p-9f, 0x01}, {0x7p-9f, 0x07},  {0x1p-6f, 0x08},
                      {0x9p-9f, 0x09}, {1, 0x38},       {1.125f, 0x39},   {2, 0x40},
                      {240, 0x77},     {256, 0x78},     {448, 0x7e},      {-448, 0xfe},
                      {-1, 0xb8},      {-0.0f, 0x80},   {-0x1p-9f, 0x81}, {-1.5f, 0xbc}};
  const Row e5m2[] = {{0, 0x00},
                      {0x1p-16f, 0x01},
                      {0x3p-16f, 0x03},
                      {0x1p-14f, 0x04},
                      {0x5p-16f, 0x05},
                      {1, 0x3c},
                      {1.25f, 0x3d},
                      {2, 0x40},
                      {57344, 0x7b},
                      {-57344, 0xfb},
                      {static_cast<float>(INFINITY), 0x7c},
                      {static_cast<float>(-INFINITY), 0xfc},
                      {-0.0f, 0x80},
                      {-0x1p-16f, 0x81}};
  for (const Row& row : e4m3) {
    const float widened = Widen(WEFT_FLOAT8_E4M3, static_cast<uint8_t>(row.bits));
    EXPECT_EQ(std::bit_cast<uint32_t>(widened), std::bit_cast<uint32_t>(row.value)) << row.value;
    ExpectRounded(WEFT_FLOAT8_E4M3, row.value, row.bits);
  }
  for (const Row& row : e5m2) {
    const float widened = Widen(WEFT_FLOAT8_E5M2, static_cast<uint8_t>(row.bits));
    EXPECT_EQ(std::bit_cast<uint32_t>(widened), std::bit_cast<uint32_t>(row.value)) << row.value;
    ExpectRounded(WEFT_FLOAT8_E5M2, row.value, row.bits);
  }
  EXPECT_TRUE(std::isnan(Widen(WEFT_FLOAT8_E4M3, 0x7f)));
  EXPECT_TRUE(std::isnan(Widen(WEFT_FLOAT8_E4M3, 0xff)));
  for (const uint8_t bits : {0x7d, 0x7e, 0x7f, 0xfd, 0xfe, 0xff}) {
    EXPECT_TRUE(std::isnan(Widen(WEFT_FLOAT8_E5M2, bits)));
  }
}

// Ties go to even; e4m3 stops at 448, e5m2 goes on to infinity.
TEST(Float8, RoundsOnceToNearestEven) {
  const float inf = INFINITY;
  const float nan = NAN;
  const Row e4m3[] = {{17, 0x58},        {19, 0x5a},        {17.01f, 0x59},    {0x1p-10f, 0x00},
                      {0x3p-10f, 0x02},  {0x5p-10f, 0x02},  {-0x1p-10f, 0x80}, {0x1.01p-10f, 0x01},
                      {0xfp-10f, 0x08},  {0xep-10f, 0x07},  {463.99f, 0x7e},   {464, 0x7e},
                      {465, 0x7e},       {480, 0x7e},       {-500, 0xfe},      {3e38f, 0x7e},
                      {inf, 0x7e},       {-inf, 0xfe},      {nan, 0x7f},       {-nan, 0x7f},
                      {0x1p-149f, 0x00}, {-0x1p-126f, 0x80}};
  const Row e5m2[] = {{1.125f, 0x3c},    {1.375f, 0x3e},    {1.126f, 0x3d},    {0x1p-17f, 0x00},
                      {0x3p-17f, 0x02},  {0x5p-17f, 0x02},  {-0x1p-17f, 0x80}, {0x1.01p-17f, 0x01},
                      {0x7p-17f, 0x04},  {0x6p-17f, 0x03},  {61439, 0x7b},     {61440, 0x7c},
                      {65536, 0x7c},     {-61440, 0xfc},    {-61439, 0xfb},    {3e38f, 0x7c},
                      {inf, 0x7c},       {-inf, 0xfc},      {nan, 0x7e},       {-nan, 0x7e},
                      {0x1p-149f, 0x00}, {-0x1p-126f, 0x80}};
  for (const Row& row : e4m3)
    ExpectRounded(WEFT_FLOAT8_E4M3, row.value, row.bits);
  for (const Row& row : e5m2)
    ExpectRounded(WEFT_FLOAT8_E5M2, row.value, row.bits);
}

TEST(Float8, EveryPairMeets) {
  std::vector<Elements> pairs(2);
  for (uint64_t left = 0; left < 256; ++left) {
    for (uint64_t right = 0; right < 256; ++right) {
      pairs[0].push_back(left);
      pairs[1].push_back(right);
    }
  }
  for (const weft_dtype_t dtype : kFloat8s) {
    for (const weft_op_t op : {WEFT_SUM, WEFT_PROD, WEFT_MIN, WEFT_MAX, WEFT_AVG}) {
      Elements expected;
      for (size_t i = 0; i < pairs[0].size(); ++i)
        expected.push_back(ReduceReference(dtype, op, {pairs[0][i], pairs[1][i]}, 3));
      for (const Isa isa : AvailableIsas()) {
        const Elements result = RunKernel(isa, dtype, op, pairs, 3);
        for (size_t i = 0; i < result.size(); ++i) {
          ASSERT_EQ(result[i], expected[i])
              << IsaName(isa) << " " << DtypeName(dtype) << " " << OpName(op) << " of "
              << pairs[0][i] << " and " << pairs[1][i];
        }
      }
    }
  }
}

TEST(Float8, EveryValueSurvivesItsRoundTrip) {
  Elements all;
  for (uint64_t bits = 0; bits < 256; ++bits)
    all.push_back(bits);
  for (const weft_dtype_t dtype : kFloat8s) {
    for (const weft_op_t op : {WEFT_SUM, WEFT_PROD, WEFT_MIN, WEFT_MAX, WEFT_AVG}) {
      for (const Isa isa : AvailableIsas()) {
        const Elements result = RunKernel(isa, dtype, op, {all}, 1);
        for (uint64_t bits = 0; bits < 256; ++bits) {
          const bool nan = std::isnan(DecodeFloat(dtype, bits));
          ASSERT_EQ(result[bits], nan ? QuietNan(dtype) : bits)
              << IsaName(isa) << " " << DtypeName(dtype) << " " << OpName(op);
        }
      }
    }
  }
}

// All exponents of float32, and mantissas around everything a rounding can hang on: the kept bits odd
// and even, the rest nothing, just below, at and just above the tie, everything. Denormals keep fewer
// bits, so ties of every length are tried.
TEST(Float8, Float32RoundsAtEveryExponent) {
  for (const weft_dtype_t dtype : kFloat8s) {
    for (uint32_t exponent = 0; exponent < 256; ++exponent) {
      for (int kept_bits = 0; kept_bits <= (dtype == WEFT_FLOAT8_E4M3 ? 3 : 2); ++kept_bits) {
        const uint32_t tie = 1u << (22 - kept_bits);
        for (uint32_t kept = 0; kept < 1u << kept_bits; ++kept) {
          for (const uint32_t rest : {0u, 1u, tie - 1, tie, tie + 1, 2 * tie - 1}) {
            const uint32_t bits = exponent << 23 | kept << (23 - kept_bits) | rest;
            for (const uint32_t sign : {0u, 0x80000000u}) {
              const auto value = std::bit_cast<float>(bits | sign);
              ASSERT_NO_FATAL_FAILURE(ExpectRounded(dtype, value, EncodeFloat(dtype, value)));
            }
          }
        }
      }
    }
  }
}

TEST(Float8, SumsOfManyAreRoundedOnce) {
  // 16 + 16 times 1: each 17 on the way would round back to 16.
  Elements column(17, 0x38);
  column[0] = 0x58;
  EXPECT_EQ(ReduceReference(WEFT_FLOAT8_E4M3, WEFT_SUM, column, 0), 0x60u);
  std::vector<Elements> sources;
  for (const uint64_t bits : column)
    sources.emplace_back(131, bits);
  for (const Isa isa : AvailableIsas()) {
    EXPECT_EQ(RunKernel(isa, WEFT_FLOAT8_E4M3, WEFT_SUM, sources, 0), Elements(131, 0x60));
  }
}

}  // namespace
}  // namespace weft::float8_test
