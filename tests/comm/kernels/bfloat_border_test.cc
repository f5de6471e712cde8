// bfloat16 where rounding has cases of its own: denormals and NaNs, alone in a vector, among zeros and infinities, and as
// results of numbers that are neither.

#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "comm/kernels/dtype.h"
#include "comm/kernels/reduce.h"
#include "tests/comm/kernels/reference.h"

namespace weft::bfloat_border_test {
namespace {

// Between the values that are tried. Sanitizers make everything ten times slower.
#if defined(WEFT_SANITIZE)
constexpr size_t kStep = 101;
#else
constexpr size_t kStep = 7;
#endif

// What rounds, and therefore converts.
std::vector<weft_op_t> RoundingOps() {
  return {WEFT_SUM, WEFT_PROD, WEFT_AVG, kOpPremulSum};
}

// Beyond the usual ones: numbers around the least normal one, whose differences are denormals.
Elements Borderline() {
  Elements elements = SpecialElements(WEFT_BFLOAT16);
  for (const uint64_t bits : {0x0080, 0x80ff, 0x8081, 0x00ff, 0x0100, 0x8180, 0x007f, 0x7f81})
    elements.push_back(bits);
  return elements;
}

void ExpectReference(const std::vector<Elements>& sources) {
  constexpr int64_t kDivisor = 3;
  const Elements factors = Factors(WEFT_BFLOAT16, sources.size());
  for (const weft_op_t op : RoundingOps()) {
    Elements expected;
    Elements column(sources.size());
    for (size_t i = 0; i < sources[0].size(); ++i) {
      for (size_t s = 0; s < sources.size(); ++s)
        column[s] = sources[s][i];
      expected.push_back(ReduceReference(WEFT_BFLOAT16, op, column, kDivisor, factors));
    }
    for (const Isa isa : AvailableIsas()) {
      const Elements result = RunKernel(isa, WEFT_BFLOAT16, op, sources, kDivisor, factors);
      for (size_t i = 0; i < expected.size(); ++i) {
        ASSERT_EQ(result[i], expected[i]) << IsaName(isa) << " " << OpName(op) << " of "
                                          << sources[0][i] << " and " << sources[1][i];
      }
    }
  }
}

TEST(BfloatBorder, ValuesOfAllSizesMeetEveryBorderlineOne) {
  Elements all;
  for (size_t bits = 0; bits < 65536; bits += kStep)
    all.push_back(bits);
  for (const uint64_t bits : Borderline()) {
    ASSERT_NO_FATAL_FAILURE(ExpectReference({all, Elements(all.size(), bits)}));
  }
}

// Each in every lane of a vector of 32, and in the part of one at the end.
TEST(BfloatBorder, OneElementDoesNotChangeItsNeighbours) {
  constexpr size_t kCount = 2 * 32 + 17;
  std::mt19937_64 random(TestSeed());
  const auto ordinary = [&] {
    return (random() & 0x80ff) | 0x3f00;
  };
  const Elements borderline = Borderline();
  size_t lane = 0;
  for (const uint64_t left : borderline) {
    for (const uint64_t right : borderline) {
      std::vector<Elements> sources(2, Elements(kCount));
      for (size_t i = 0; i < kCount; ++i) {
        sources[0][i] = ordinary();
        sources[1][i] = ordinary();
      }
      lane = (lane + 5) % 32;
      for (const size_t i : {32 + lane, 64 + lane % 17}) {
        sources[0][i] = left;
        sources[1][i] = right;
      }
      ASSERT_NO_FATAL_FAILURE(ExpectReference(sources)) << "--gtest_random_seed=" << TestSeed();
    }
  }
}

// Two ranks reduce into two buffers, which has a loop of its own.
TEST(BfloatBorder, TwoDestinationsGetTheSameBits) {
  const Elements borderline = Borderline();
  std::vector<Elements> sources(2);
  for (const uint64_t left : borderline) {
    for (const uint64_t right : borderline) {
      sources[0].push_back(left);
      sources[1].push_back(right);
    }
  }
  const Elements expected =
      RunKernel(Isa::kScalar, WEFT_BFLOAT16, WEFT_SUM, sources, 0, Elements());
  const std::vector<char> first = PackElements(WEFT_BFLOAT16, sources[0]);
  const std::vector<char> second = PackElements(WEFT_BFLOAT16, sources[1]);
  for (const Isa isa : AvailableIsas()) {
    std::vector<char> one(first.size());
    std::vector<char> other(first.size());
    const void* const inputs[] = {first.data(), second.data()};
    void* const outputs[] = {one.data(), other.data()};
    FindReduceKernel(isa, WEFT_BFLOAT16, WEFT_SUM)({inputs, 2, outputs, 2, expected.size(), 0});
    EXPECT_EQ(Unpack(WEFT_BFLOAT16, one), expected) << IsaName(isa);
    EXPECT_EQ(one, other) << IsaName(isa);
  }
}

}  // namespace
}  // namespace weft::bfloat_border_test
