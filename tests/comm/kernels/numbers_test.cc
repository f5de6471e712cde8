// The numbers contract, value by value: special values, ties, conversions, the order of additions.

#include <bit>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

#include "base/text.h"
#include "comm/kernels/dtype.h"
#include "comm/kernels/reduce.h"
#include "tests/comm/kernels/reference.h"

namespace weft::numbers_test {
namespace {

uint64_t Float(float value) {
  return std::bit_cast<uint32_t>(value);
}

// Runs one element's reduction on every instruction set and in every lane of a long call.
void ExpectBits(weft_dtype_t dtype, weft_op_t op, const Elements& column, uint64_t expected,
                int64_t divisor = 1) {
  std::vector<Elements> sources;
  for (const uint64_t bits : column)
    sources.emplace_back(67, bits);
  for (const Isa isa : AvailableIsas()) {
    const Elements result = RunKernel(isa, dtype, op, sources, divisor);
    for (size_t i = 0; i < result.size(); ++i) {
      ASSERT_EQ(result[i], expected) << IsaName(isa) << " " << DtypeName(dtype) << " " << OpName(op)
                                     << " " << testing::PrintToString(column) << " element " << i;
    }
  }
}

void ExpectReference(weft_dtype_t dtype, const std::vector<Elements>& sources, int64_t divisor) {
  const Elements factors = Factors(dtype, sources.size());
  for (const weft_op_t op : OpsOf(dtype)) {
    Elements expected;
    for (size_t i = 0; i < sources[0].size(); ++i) {
      Elements column;
      for (const Elements& source : sources)
        column.push_back(source[i]);
      expected.push_back(ReduceReference(dtype, op, column, divisor, factors));
    }
    for (const Isa isa : AvailableIsas()) {
      const Elements result = RunKernel(isa, dtype, op, sources, divisor, factors);
      for (size_t i = 0; i < result.size(); ++i) {
        ASSERT_EQ(result[i], expected[i])
            << IsaName(isa) << " " << DtypeName(dtype) << " " << OpName(op) << " of "
            << sources[0][i] << ", " << sources[1][i] << " and " << sources.back()[i];
      }
    }
  }
}

TEST(Numbers, SpecialValuesMeetInPairsAndTriples) {
  for (const weft_dtype_t dtype : kDtypes) {
    const Elements special = SpecialElements(dtype);
    const size_t count = special.size();
    std::vector<Elements> pairs(2);
    std::vector<Elements> triples(3);
    for (size_t i = 0; i < count * count * count; ++i) {
      triples[0].push_back(special[i % count]);
      triples[1].push_back(special[i / count % count]);
      triples[2].push_back(special[i / count / count]);
    }
    for (size_t i = 0; i < count * count; ++i) {
      pairs[0].push_back(special[i % count]);
      pairs[1].push_back(special[i / count]);
    }
    ASSERT_NO_FATAL_FAILURE(ExpectReference(dtype, pairs, 3));
    ASSERT_NO_FATAL_FAILURE(ExpectReference(dtype, triples, 3));
  }
}

TEST(Numbers, SumsFollowTheBalancedTree) {
  const float big = 0x1p24f;
  // (1 + big) loses the 1, (big + -big) does not meet it: only the tree's order gives these.
  ExpectBits(WEFT_FLOAT32, WEFT_SUM, {Float(1), Float(big), Float(-big), Float(1)}, Float(1));
  ExpectBits(WEFT_FLOAT32, WEFT_SUM, {Float(big), Float(-big), Float(1), Float(1)}, Float(2));
  // Five: the last joins the tree over four.
  ExpectBits(WEFT_FLOAT32, WEFT_SUM, {Float(big), Float(1), Float(1), Float(0), Float(-big)},
             Float(0));
  // Six: the last two are a tree of their own.
  ExpectBits(WEFT_FLOAT32, WEFT_SUM, {Float(big), Float(0), Float(0), Float(0), Float(1), Float(1)},
             Float(big + 2));
}

TEST(Numbers, HalvesAccumulateInFloat32AndRoundOnce) {
  // 256 + 1 + 1 in bfloat16 steps would stay 256; 2048 + 1 + 1 in float16 steps 2048.
  const uint64_t one_bf16 = 0x3f80;
  ExpectBits(WEFT_BFLOAT16, WEFT_SUM, {0x4380, one_bf16, one_bf16, 0}, 0x4381);
  const uint64_t one_f16 = 0x3c00;
  ExpectBits(WEFT_FLOAT16, WEFT_SUM, {0x6800, one_f16, one_f16, 0}, 0x6801);
}

TEST(Numbers, TiesGoToEven) {
  // bfloat16: 1 + 2^-8 is halfway to 1 + 2^-7.
  ExpectBits(WEFT_BFLOAT16, WEFT_SUM, {0x3f80, 0x3b80}, 0x3f80);
  ExpectBits(WEFT_BFLOAT16, WEFT_SUM, {0x3f81, 0x3b80}, 0x3f82);
  ExpectBits(WEFT_BFLOAT16, WEFT_SUM, {0xbf81, 0xbb80}, 0xbf82);
  // float16: 1 + 2^-11 is halfway to 1 + 2^-10.
  ExpectBits(WEFT_FLOAT16, WEFT_SUM, {0x3c00, 0x1000}, 0x3c00);
  ExpectBits(WEFT_FLOAT16, WEFT_SUM, {0x3c01, 0x1000}, 0x3c02);
}

TEST(Numbers, OverflowIsInfinityAndDenormalsAreKept) {
  ExpectBits(WEFT_FLOAT16, WEFT_SUM, {0x7bff, 0x4c00}, 0x7c00);  // 65504 + 16: the tie, up
  ExpectBits(WEFT_FLOAT16, WEFT_SUM, {0x7bff, 0x4bff}, 0x7bff);  // 65504 + 15.99
  ExpectBits(WEFT_FLOAT16, WEFT_SUM, {0xfbff, 0xfbff}, 0xfc00);
  ExpectBits(WEFT_BFLOAT16, WEFT_SUM, {0x7f7f, 0x7b80}, 0x7f80);
  ExpectBits(WEFT_FLOAT16, WEFT_SUM, {0x0001, 0x0001}, 0x0002);
  ExpectBits(WEFT_BFLOAT16, WEFT_SUM, {0x0001, 0x0001}, 0x0002);
  ExpectBits(WEFT_FLOAT32, WEFT_SUM, {1, 1}, 2);
  ExpectBits(WEFT_FLOAT64, WEFT_SUM, {1, 1}, 2);
  ExpectBits(WEFT_FLOAT16, WEFT_AVG, {0x0001, 0x0000}, 0x0000, 2);  // half of the least: to even
  ExpectBits(WEFT_FLOAT16, WEFT_AVG, {0x0002, 0x0001}, 0x0002, 2);
}

TEST(Numbers, NanWinsAndMinusZeroIsLess) {
  const uint64_t nan = 0x7fc00000;
  const uint64_t minus_zero = 0x80000000;
  const uint64_t signalling = 0xff800001;
  for (const weft_op_t op : {WEFT_MIN, WEFT_MAX}) {
    ExpectBits(WEFT_FLOAT32, op, {signalling, Float(1)}, nan);
    ExpectBits(WEFT_FLOAT32, op, {Float(-INFINITY), signalling}, nan);
    ExpectBits(WEFT_FLOAT32, op, {0x7fffffff, Float(INFINITY)}, nan);
    ExpectBits(WEFT_FLOAT32, op, {signalling}, nan);
  }
  ExpectBits(WEFT_FLOAT32, WEFT_MIN, {0, minus_zero}, minus_zero);
  ExpectBits(WEFT_FLOAT32, WEFT_MIN, {minus_zero, 0}, minus_zero);
  ExpectBits(WEFT_FLOAT32, WEFT_MAX, {0, minus_zero}, 0);
  ExpectBits(WEFT_FLOAT32, WEFT_MAX, {minus_zero, 0}, 0);
  ExpectBits(WEFT_FLOAT32, WEFT_SUM, {Float(INFINITY), Float(-INFINITY)}, nan);
}

TEST(Numbers, IntegersWrapAndAveragesTruncate) {
  ExpectBits(WEFT_INT8, WEFT_SUM, {127, 1}, 128);
  ExpectBits(WEFT_INT32, WEFT_PROD, {0x10000, 0x10000}, 0);
  ExpectBits(WEFT_INT64, WEFT_SUM, {~uint64_t{0}, 1}, 0);
  ExpectBits(WEFT_INT32, WEFT_AVG, {0xfffffff9, 0}, 0xfffffffd, 2);  // -7 / 2 is -3
  ExpectBits(WEFT_UINT32, WEFT_AVG, {0xfffffff9, 0}, 0x7ffffffc, 2);
  ExpectBits(WEFT_INT8, WEFT_AVG, {100, 100}, 0xe4, 2);  // 200 wraps to -56 before the division
  ExpectBits(WEFT_INT8, WEFT_AVG, {100, 0}, 0, 200);     // a divisor beyond the type
  ExpectBits(WEFT_UINT64, WEFT_AVG, {~uint64_t{0}}, 0x5555555555555555, 3);
}

TEST(Numbers, BooleansAreZeroOrOne) {
  for (const weft_op_t op : {WEFT_SUM, WEFT_MAX, WEFT_BIT_OR}) {
    ExpectBits(WEFT_BOOL, op, {0x80, 0}, 1);
    ExpectBits(WEFT_BOOL, op, {1, 1}, 1);
    ExpectBits(WEFT_BOOL, op, {0, 0, 0}, 0);
    ExpectBits(WEFT_BOOL, op, {0xff}, 1);
  }
  for (const weft_op_t op : {WEFT_PROD, WEFT_MIN, WEFT_BIT_AND}) {
    ExpectBits(WEFT_BOOL, op, {0x80, 0x01}, 1);  // no bit in common, yet both true
    ExpectBits(WEFT_BOOL, op, {0x80, 0}, 0);
  }
  ExpectBits(WEFT_BOOL, WEFT_BIT_XOR, {0x80, 0x01}, 0);
  ExpectBits(WEFT_BOOL, WEFT_BIT_XOR, {2, 4, 8}, 1);
}

TEST(Numbers, BitsAreCombinedOneByOne) {
  ExpectBits(WEFT_INT8, WEFT_BIT_AND, {0xf0, 0xaa, 0xff}, 0xa0);
  ExpectBits(WEFT_INT32, WEFT_BIT_OR, {0x80000000, 0x00000001}, 0x80000001);
  ExpectBits(WEFT_UINT64, WEFT_BIT_XOR, {0xffff0000ffff0000, 0x00ffff0000ffff00, 1},
             0xff00ff00ff00ff01);
}

// Two equal inputs whose factors differ.
void ExpectScaled(weft_dtype_t dtype, uint64_t input, const Elements& factors, uint64_t expected) {
  const std::vector<Elements> sources(factors.size(), Elements(67, input));
  for (const Isa isa : AvailableIsas()) {
    const Elements result = RunKernel(isa, dtype, kOpPremulSum, sources, 0, factors);
    EXPECT_EQ(result, Elements(67, expected)) << IsaName(isa) << " " << DtypeName(dtype);
  }
}

TEST(Numbers, FactorsMultiplyInTheAccumulator) {
  // bfloat16 3 x 0.1 + 3 x 0.2: float32 0.9 rounded once; in bfloat16 steps it would be 0.8984.
  ExpectScaled(WEFT_BFLOAT16, 0x4040, {Float(0.1f), Float(0.2f)}, 0x3f66);
  // float16 65504 x 2^10 overflows float16 but not the accumulator.
  ExpectScaled(WEFT_FLOAT16, 0x7bff, {Float(1024), Float(-1024), Float(1)}, 0x7bff);
  // float8_e4m3 448 x 2 - 448 x 1.5 is 224.
  ExpectScaled(WEFT_FLOAT8_E4M3, 0x7e, {Float(2), Float(-1.5f)}, 0x76);
  ExpectScaled(WEFT_FLOAT8_E4M3, 0x7e, {Float(2), Float(-0.5f)}, 0x7e);
  ExpectScaled(WEFT_FLOAT32, Float(1), {Float(0.25f)}, Float(0.25f));
  // No fused multiply-add: 1 + 2^-12 squared loses its last bit before 1 is subtracted.
  ExpectScaled(WEFT_FLOAT32, Float(1 + 0x1p-12f), {Float(1 + 0x1p-12f), Float(-1)},
               Float(0x1p-12f));
  ExpectScaled(WEFT_FLOAT64, std::bit_cast<uint64_t>(0.5), {std::bit_cast<uint64_t>(0x1p-40)},
               std::bit_cast<uint64_t>(0x1p-41));
  ExpectScaled(WEFT_FLOAT32, Float(0), {Float(INFINITY), Float(1)}, 0x7fc00000);
  ExpectScaled(WEFT_INT8, 100, {3, 0xff}, 200);  // 300 - 100
  ExpectScaled(WEFT_INT64, uint64_t{1} << 63, {3, 1}, 0);
}

TEST(Numbers, EverySixteenBitValueSurvivesItsRoundTrip) {
  Elements all(65536);
  for (size_t bits = 0; bits < all.size(); ++bits)
    all[bits] = bits;
  for (const weft_dtype_t dtype : {WEFT_FLOAT16, WEFT_BFLOAT16}) {
    for (const Isa isa : AvailableIsas()) {
      for (const weft_op_t op : {WEFT_SUM, WEFT_PROD, WEFT_MIN, WEFT_MAX, WEFT_AVG}) {
        const Elements result = RunKernel(isa, dtype, op, {all}, 1);
        for (size_t bits = 0; bits < all.size(); ++bits) {
          const bool nan = std::isnan(DecodeFloat(dtype, bits));
          ASSERT_EQ(result[bits], nan ? QuietNan(dtype) : bits)
              << IsaName(isa) << " " << DtypeName(dtype);
        }
      }
    }
  }
}

// Mantissas of float32 around everything a rounding can hang on: the kept bits odd and even, the
// rest nothing, just below, at and just above the tie, everything.
std::vector<uint32_t> TellingMantissas(int kept_bits) {
  const int dropped = 23 - kept_bits;
  const uint32_t tie = 1u << (dropped - 1);
  std::vector<uint32_t> mantissas;
  for (const uint32_t kept : {0u, 1u, 2u, 0x2bu, (1u << kept_bits) - 2, (1u << kept_bits) - 1}) {
    for (const uint32_t rest : {0u, 1u, tie - 1, tie, tie + 1, 2 * tie - 1}) {
      mantissas.push_back((kept << dropped | rest) & 0x7fffffu);
    }
  }
  return mantissas;
}

// Splits float32 `value` into three numbers of a narrow type whose sum it is, leading bits first.
Elements SplitInThree(weft_dtype_t dtype, float value) {
  Elements parts;
  const uint32_t mask = dtype == WEFT_BFLOAT16 ? 0xffff0000u : 0xffffe000u;
  for (int i = 0; i < 3; ++i) {
    const float part = std::bit_cast<float>(std::bit_cast<uint32_t>(value) & mask);
    parts.push_back(EncodeFloat(dtype, part));
    value -= part;
  }
  return parts;
}

void ExpectRounded(weft_dtype_t dtype, const std::vector<Elements>& sources,
                   const std::vector<float>& sums, int64_t divisor) {
  for (const Isa isa : AvailableIsas()) {
    const Elements result = RunKernel(isa, dtype, WEFT_AVG, sources, divisor);
    for (size_t i = 0; i < sums.size(); ++i) {
      const float exact = sums[i] / static_cast<float>(divisor);
      ASSERT_EQ(result[i], EncodeFloat(dtype, exact))
          << IsaName(isa) << " " << DtypeName(dtype) << " of " << std::hexfloat << exact;
    }
  }
}

void AppendSplit(weft_dtype_t dtype, float value, std::vector<Elements>& sources,
                 std::vector<float>& sums) {
  const Elements parts = SplitInThree(dtype, value);
  float sum = DecodeFloat(dtype, parts[0]) + DecodeFloat(dtype, parts[1]);
  sum += DecodeFloat(dtype, parts[2]);
  ASSERT_EQ(sum, value) << "the test's own split is wrong";
  for (int s = 0; s < 3; ++s)
    sources[s].push_back(parts[s]);
  sums.push_back(sum);  // -0 became +0
}

// The low parts of small numbers are below bfloat16's least denormal; those numbers are made 2^62
// times larger and divided again, which is exact.
TEST(Numbers, Float32RoundsToBfloat16AtEveryExponent) {
  constexpr uint32_t kSmallExponents = 64;
  std::vector<Elements> small_sources(3);
  std::vector<Elements> sources(3);
  std::vector<float> small_sums;
  std::vector<float> sums;
  for (uint32_t exponent = 0; exponent < 255; ++exponent) {
    for (const uint32_t mantissa : TellingMantissas(7)) {
      for (const uint32_t sign : {0u, 0x80000000u}) {
        const auto value = std::bit_cast<float>(sign | exponent << 23 | mantissa);
        if (exponent < kSmallExponents) {
          ASSERT_NO_FATAL_FAILURE(
              AppendSplit(WEFT_BFLOAT16, value * 0x1p62f, small_sources, small_sums));
        } else {
          ASSERT_NO_FATAL_FAILURE(AppendSplit(WEFT_BFLOAT16, value, sources, sums));
        }
      }
    }
  }
  ExpectRounded(WEFT_BFLOAT16, small_sources, small_sums, int64_t{1} << 62);
  ExpectRounded(WEFT_BFLOAT16, sources, sums, 1);
}

// Sums of three float16 reach any float32 mantissa at one exponent; dividing by powers of two takes
// it to every exponent from overflow to below the least denormal.
TEST(Numbers, Float32RoundsToFloat16AtEveryExponent) {
  std::vector<Elements> sources(3);
  std::vector<float> sums;
  for (const uint32_t exponent : {127u + 13, 127u + 14, 127u + 15}) {
    for (const uint32_t mantissa : TellingMantissas(10)) {
      for (const uint32_t sign : {0u, 0x80000000u}) {
        const auto value = std::bit_cast<float>(sign | exponent << 23 | mantissa);
        ASSERT_NO_FATAL_FAILURE(AppendSplit(WEFT_FLOAT16, value, sources, sums));
      }
    }
  }
  for (int shift = 0; shift < 50; ++shift) {
    ASSERT_NO_FATAL_FAILURE(ExpectRounded(WEFT_FLOAT16, sources, sums, int64_t{1} << shift));
  }
}

#if defined(__SSE2__)
// Programs linked with -ffast-math flush denormals; others round upward. Neither may change a bit,
// nor may a kernel change what its caller had set.
TEST(Numbers, DoNotDependOnTheCallersFloatingPointMode) {
  const unsigned saved = _mm_getcsr();
  const unsigned hostile = 0x1f80u | 0x8000u | 0x0040u | 0x4000u;  // flush, zero, upward
  for (const weft_dtype_t dtype : kDtypes) {
    const Elements special = SpecialElements(dtype);
    const Elements reversed(special.rbegin(), special.rend());
    const Elements factors = Factors(dtype, 2);
    for (const weft_op_t op : OpsOf(dtype)) {
      for (const Isa isa : AvailableIsas()) {
        const Elements expected = RunKernel(isa, dtype, op, {special, reversed}, 3, factors);
        _mm_setcsr(hostile);
        const Elements result = RunKernel(isa, dtype, op, {special, reversed}, 3, factors);
        const unsigned after = _mm_getcsr();
        _mm_setcsr(saved);
        ASSERT_EQ(result, expected) << IsaName(isa) << " " << DtypeName(dtype) << " " << OpName(op);
        ASSERT_EQ(after & 0xffc0u, hostile) << IsaName(isa) << " " << DtypeName(dtype);
      }
    }
  }
}
#endif

}  // namespace
}  // namespace weft::numbers_test
