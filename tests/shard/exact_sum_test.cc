#include "shard/optimizer/exact_sum.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace weft::exact_sum_test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kLargest = std::numeric_limits<double>::max();
constexpr double kLeast = 0x1p-1074;

double SumOf(const std::vector<double>& values) {
  ExactSum sum;
  for (const double value : values)
    sum.Add(value);
  return sum.Value();
}

// Bits, so that -0 is not +0 and NaN equals itself.
#define EXPECT_SAME(left, right) \
  EXPECT_EQ(std::bit_cast<uint64_t>(double{left}), std::bit_cast<uint64_t>(double{right}))

// Shewchuk's sum: partial sums that do not overlap, kept exact by two-sums, least first; for what does
// not overflow. Shares nothing with limbs.
double ShewchukSum(const std::vector<double>& values) {
  std::vector<double> partials;
  for (double value : values) {
    std::vector<double> kept;
    for (double partial : partials) {
      if (std::abs(value) < std::abs(partial)) std::swap(value, partial);
      const double high = value + partial;
      const double low = partial - (high - value);
      if (low != 0) kept.push_back(low);
      value = high;
    }
    kept.push_back(value);
    partials = kept;
  }
  double high = 0;
  double low = 0;
  while (!partials.empty() && low == 0) {
    const double value = high;
    const double partial = partials.back();
    partials.pop_back();
    high = value + partial;
    low = partial - (high - value);
  }
  // A tie of the last two was decided without the rest: the rest's sign decides it.
  if (!partials.empty() && (low < 0) == (partials.back() < 0)) {
    const double twice = low * 2;
    if (twice == (high + twice) - high) high += twice;
  }
  return high;
}

// Numbers of exponents [low, high], both signs, with some that cancel exactly.
std::vector<double> RandomNumbers(std::mt19937_64& random, int count, int low, int high) {
  std::vector<double> numbers;
  for (int i = 0; i < count; ++i) {
    if (i % 5 == 4) {
      numbers.push_back(-numbers[random() % numbers.size()]);
      continue;
    }
    const double mantissa = 1 + static_cast<double>(random() >> 12) * 0x1p-52;
    const int exponent = low + static_cast<int>(random() % (high - low + 1));
    numbers.push_back(std::ldexp(random() % 2 == 0 ? mantissa : -mantissa, exponent));
  }
  return numbers;
}

TEST(ExactSum, OfNothingIsPlusZero) {
  EXPECT_SAME(ExactSum().Value(), 0.0);
  EXPECT_SAME(SumOf({-0.0}), 0.0);
  EXPECT_SAME(SumOf({-3.5, 3.5}), 0.0);
}

TEST(ExactSum, OfOneNumberIsTheNumber) {
  for (const double value : {1.0, 3.1, kLeast, 5 * kLeast, 0x1p-1022, 0x1p-1022 - kLeast,
                             0x1.fffffffffffffp-1022, kLargest, 0x1p1023, 0x1.23456789abcdep-500}) {
    EXPECT_SAME(SumOf({value}), value);
    EXPECT_SAME(SumOf({-value}), -value);
  }
}

TEST(ExactSum, EqualsIntegerSumsRoundedOnce) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 200; ++round) {
    ExactSum sum;
    __int128 expected = 0;  // counts of 2^-30
    for (int i = 0; i < 100; ++i) {
      const auto count = static_cast<int64_t>(random() >> (1 + random() % 60));
      const int64_t term = (random() % 2 == 0 ? 1 : -1) * (count & ~int64_t{0x7ff});
      sum.Add(static_cast<double>(term) * 0x1p-30);
      expected += term;
    }
    EXPECT_SAME(sum.Value(), static_cast<double>(expected) * 0x1p-30);
  }
}

TEST(ExactSum, EqualsShewchuksSumOverAllExponents) {
  std::mt19937_64 random(2);
  for (const auto& [low, high] : {std::pair(-1074, 1000), std::pair(-1074, -1000),
                                  std::pair(-60, 60), std::pair(-30, 0), std::pair(900, 1010)}) {
    for (int round = 0; round < 50; ++round) {
      const std::vector<double> numbers = RandomNumbers(random, 60, low, high);
      EXPECT_SAME(SumOf(numbers), ShewchukSum(numbers)) << low << ".." << high;
    }
  }
}

TEST(ExactSum, HasTheSameWordsInEveryOrder) {
  std::mt19937_64 random(3);
  std::vector<double> numbers = RandomNumbers(random, 500, -1074, 1010);
  numbers.push_back(kInfinity);
  numbers.push_back(std::nan(""));
  ExactSum first;
  for (const double number : numbers)
    first.Add(number);
  for (int round = 0; round < 20; ++round) {
    std::shuffle(numbers.begin(), numbers.end(), random);
    ExactSum parts[3];
    for (size_t i = 0; i < numbers.size(); ++i)
      parts[i % 3].Add(numbers[i]);
    ExactSum sum;
    for (const ExactSum& part : parts)
      sum.Merge(part);
    EXPECT_EQ(sum.words(), first.words());
  }
}

TEST(ExactSum, RoundsTiesToEvenUnlessAnythingIsBelow) {
  EXPECT_SAME(SumOf({1, 0x1p-53}), 1.0);
  EXPECT_SAME(SumOf({1, 0x1p-53, kLeast}), 1 + 0x1p-52);
  EXPECT_SAME(SumOf({1, 0x1p-53, -kLeast}), 1.0);
  EXPECT_SAME(SumOf({1 + 0x1p-52, 0x1p-53}), 1 + 0x1p-51);
  EXPECT_SAME(SumOf({-1, -0x1p-53, -kLeast}), -1 - 0x1p-52);
  EXPECT_SAME(SumOf({0x1.fffffffffffffp0, 0x1p-53}), 2.0);  // a carry into the exponent
  EXPECT_SAME(SumOf({0x1p-1022, -kLeast}), 0x1p-1022 - kLeast);
}

TEST(ExactSum, KeepsTheTiniestBesideTheHugest) {
  EXPECT_SAME(SumOf({kLargest, kLeast, -kLargest}), kLeast);
  EXPECT_SAME(SumOf({kLargest, kLargest, kLargest, -kLargest, -kLargest}), kLargest);
  EXPECT_SAME(SumOf({0x1p1023, -kLeast, -0x1p1023}), -kLeast);
}

TEST(ExactSum, OverflowsAsRoundingDoes) {
  EXPECT_SAME(SumOf({kLargest, 0x1p969}), kLargest);
  EXPECT_SAME(SumOf({kLargest, 0x1p970}), kInfinity);  // a tie, and the largest number is odd
  EXPECT_SAME(SumOf({kLargest, 0x1p970, -kLeast}), kLargest);
  EXPECT_SAME(SumOf({-kLargest, -kLargest}), -kInfinity);
  EXPECT_SAME(SumOf(std::vector<double>(1000, kLargest)), kInfinity);
}

TEST(ExactSum, RemembersInfinitiesAndNans) {
  EXPECT_SAME(SumOf({1, kInfinity, -kLargest}), kInfinity);
  EXPECT_SAME(SumOf({-kInfinity, -kInfinity}), -kInfinity);
  EXPECT_TRUE(std::isnan(SumOf({kInfinity, -kInfinity})));
  EXPECT_TRUE(std::isnan(SumOf({std::nan(""), 1})));
}

TEST(ExactSum, IsTheSumOfTheRanksWords) {
  std::mt19937_64 random(4);
  const std::vector<double> numbers = RandomNumbers(random, 700, -1074, 1000);
  ExactSum whole;
  std::vector<ExactSum> ranks(7);
  for (size_t i = 0; i < numbers.size(); ++i) {
    whole.Add(numbers[i]);
    ranks[i % ranks.size()].Add(numbers[i]);
  }
  ExactSum::Words words = {};
  for (const ExactSum& rank : ranks) {
    const ExactSum::Words part = rank.words();
    for (size_t i = 0; i < words.size(); ++i)
      words[i] += part[i];
  }
  EXPECT_EQ(ExactSum(words).words(), whole.words());
  EXPECT_SAME(ExactSum(words).Value(), whole.Value());
}

TEST(ExactSum, AcceptsAnyWords) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 100; ++round) {
    ExactSum::Words words;
    for (int64_t& word : words)
      word = round % 2 == 0 ? static_cast<int64_t>(random()) : INT64_MIN + round;
    const ExactSum sum(words);
    EXPECT_EQ(ExactSum(sum.words()).words(), sum.words());
    EXPECT_SAME(ExactSum(sum.words()).Value(), sum.Value());
  }
}

}  // namespace
}  // namespace weft::exact_sum_test
