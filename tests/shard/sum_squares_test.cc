#include "shard/optimizer/sum_squares.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tests/comm/kernels/reference.h"

namespace weft::sum_squares_test {
namespace {

constexpr weft_dtype_t kTypes[] = {WEFT_FLOAT32, WEFT_BFLOAT16, WEFT_FLOAT16};

// Gradients over many orders of magnitude, denormals among them.
Elements RandomElements(weft_dtype_t dtype, size_t count) {
  std::mt19937 random(TestSeed());
  std::normal_distribution<float> normal;
  const int least = dtype == WEFT_FLOAT16 ? -24 : -140;
  Elements elements;
  for (size_t i = 0; i < count; ++i) {
    const int exponent = i % 3 == 0 ? least + static_cast<int>(random() % 30) : -3;
    elements.push_back(EncodeFloat(dtype, std::ldexp(normal(random), exponent)));
  }
  return elements;
}

ExactSum SquaresOf(Isa isa, weft_dtype_t dtype, const Elements& elements, uint64_t first = 0) {
  const std::vector<char> bytes = PackElements(dtype, elements);
  ExactSum sum;
  EXPECT_EQ(AddSquares(isa, dtype, bytes.data(), elements.size(), first, sum), 0);
  return sum;
}

// One addition after another, of 64-bit mantissas where the machine has them.
long double PlainSquares(weft_dtype_t dtype, const Elements& elements) {
  long double sum = 0;
  for (const uint64_t bits : elements) {
    const long double value = DecodeFloat(dtype, bits);
    sum += value * value;
  }
  return sum;
}

TEST(SumSquares, EqualsAPlainSum) {
  for (const weft_dtype_t dtype : kTypes) {
    for (const size_t count : {0, 1, 2, 15, 17, 127, 128, 129, 1000, 8192 + 128, 20011}) {
      const Elements elements = RandomElements(dtype, count);
      const long double expected = PlainSquares(dtype, elements);
      for (const Isa isa : AvailableIsas()) {
        const double found = SquaresOf(isa, dtype, elements).Value();
        EXPECT_LE(std::abs(found - expected), 2e-15L * expected) << IsaName(isa) << " " << count;
      }
    }
  }
}

TEST(SumSquares, HasTheSameBitsOnEveryInstructionSet) {
  for (const weft_dtype_t dtype : kTypes) {
    for (size_t count = 0; count <= 300; ++count) {
      const Elements elements = RandomElements(dtype, count);
      const ExactSum::Words expected = SquaresOf(Isa::kScalar, dtype, elements, count).words();
      for (const Isa isa : AvailableIsas())
        EXPECT_EQ(SquaresOf(isa, dtype, elements, count).words(), expected) << IsaName(isa);
    }
  }
}

TEST(SumSquares, DoesNotDependOnWhereTheSpaceIsCut) {
  constexpr size_t kCount = 128 * 40 + 77;
  for (const weft_dtype_t dtype : kTypes) {
    const Elements elements = RandomElements(dtype, kCount);
    const ExactSum::Words whole = SquaresOf(BestIsa(), dtype, elements).words();
    for (size_t cut = 0; cut <= kCount; cut += kSquareBlock) {
      const auto middle = elements.begin() + static_cast<ptrdiff_t>(cut);
      ExactSum sum = SquaresOf(BestIsa(), dtype, Elements(middle, elements.end()), cut);
      sum.Merge(SquaresOf(BestIsa(), dtype, Elements(elements.begin(), middle)));
      EXPECT_EQ(sum.words(), whole) << cut;
    }
  }
}

// An interval that starts within a block: the rest of the block might be zeros of the same space.
TEST(SumSquares, CountsBlocksFromTheStartOfTheSpace) {
  for (const weft_dtype_t dtype : kTypes) {
    for (const size_t first : {1, 16, 77, 127}) {
      const Elements elements = RandomElements(dtype, 500);
      Elements padded(first, 0);
      padded.insert(padded.end(), elements.begin(), elements.end());
      EXPECT_EQ(SquaresOf(BestIsa(), dtype, elements, kSquareBlock * 9 + first).words(),
                SquaresOf(BestIsa(), dtype, padded).words());
    }
  }
}

TEST(SumSquares, TakesAnyAddress) {
  for (const weft_dtype_t dtype : kTypes) {
    const Elements elements = RandomElements(dtype, 1000);
    const std::vector<char> bytes = PackElements(dtype, elements);
    const ExactSum::Words expected = SquaresOf(Isa::kScalar, dtype, elements).words();
    for (const Isa isa : AvailableIsas()) {
      for (size_t offset = 0; offset < 9; ++offset) {
        std::vector<char> moved(bytes.size() + offset);
        std::memcpy(moved.data() + offset, bytes.data(), bytes.size());
        ExactSum sum;
        AddSquares(isa, dtype, moved.data() + offset, elements.size(), 0, sum);
        EXPECT_EQ(sum.words(), expected);
      }
    }
  }
}

TEST(SumSquares, CountsWhatIsNotFinite) {
  for (const weft_dtype_t dtype : kTypes) {
    for (const Isa isa : AvailableIsas()) {
      Elements elements = RandomElements(dtype, 1000);
      const uint64_t infinity = EncodeFloat(dtype, INFINITY);
      elements[3] = infinity;
      elements[500] = EncodeFloat(dtype, -INFINITY);
      elements[999] = infinity;
      ExactSum infinite;
      EXPECT_EQ(AddSquares(isa, dtype, PackElements(dtype, elements).data(), 1000, 0, infinite), 3);
      EXPECT_EQ(infinite.Value(), INFINITY);
      elements[4] = QuietNan(dtype);
      elements[700] = QuietNan(dtype);
      ExactSum unordered;
      EXPECT_EQ(AddSquares(isa, dtype, PackElements(dtype, elements).data(), 1000, 0, unordered),
                5);
      EXPECT_TRUE(std::isnan(unordered.Value()));
    }
  }
}

// float64 counts as the float32 next to it: what float32 cannot hold is not finite.
TEST(SumSquares, RoundsFloat64ToFloat32) {
  std::mt19937 random(TestSeed());
  std::normal_distribution<double> normal;
  std::vector<double> doubles(1000);
  std::vector<float> floats;
  for (double& value : doubles) {
    value = normal(random);
    floats.push_back(static_cast<float>(value));
  }
  for (const Isa isa : AvailableIsas()) {
    for (const size_t first : {0, 77}) {
      ExactSum found;
      ExactSum expected;
      EXPECT_EQ(AddSquares(isa, WEFT_FLOAT64, doubles.data(), doubles.size(), first, found), 0);
      AddSquares(isa, WEFT_FLOAT32, floats.data(), floats.size(), first, expected);
      EXPECT_EQ(found.words(), expected.words());
    }
    const double unusual[] = {1e39, -INFINITY, NAN, 3e38, 1e-60};
    ExactSum sum;
    EXPECT_EQ(AddSquares(isa, WEFT_FLOAT64, unusual, std::size(unusual), 0, sum), 3);
    EXPECT_TRUE(std::isnan(sum.Value()));
  }
}

// The largest squares of a type must not look like infinities.
TEST(SumSquares, DoesNotOverflow) {
  for (const Isa isa : AvailableIsas()) {
    const std::vector<float> largest(256, 0x1.fffffep127f);
    ExactSum sum;
    EXPECT_EQ(AddSquares(isa, WEFT_FLOAT32, largest.data(), largest.size(), 0, sum), 0);
    EXPECT_NEAR(sum.Value(), 0x1p264, 0x1p242);
  }
}

}  // namespace
}  // namespace weft::sum_squares_test
