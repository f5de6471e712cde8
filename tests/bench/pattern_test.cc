#include "bench/weft_perf/pattern.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "bench/weft_perf/operation.h"

namespace weft::perf::pattern_test {
namespace {

double Decode(uint64_t bits, const ElementType& type) {
  const int mantissa = type.mantissa_bits;
  const uint64_t fraction = bits & ((uint64_t{1} << mantissa) - 1);
  const auto exponent =
      static_cast<int>((bits >> mantissa) & ((uint64_t{1} << type.exponent_bits) - 1));
  const int bias = (1 << (type.exponent_bits - 1)) - 1;
  if (type.dtype == WEFT_FLOAT8_E4M3) {
    EXPECT_NE(bits & 0x7f, 0x7fu) << "NaN";
  }
  const bool negative = ((bits >> (mantissa + type.exponent_bits)) & 1) != 0;
  const double one = static_cast<double>(fraction) / static_cast<double>(uint64_t{1} << mantissa);
  const double magnitude =
      exponent == 0 ? std::ldexp(one, 1 - bias) : std::ldexp(1 + one, exponent - bias);
  return negative ? -magnitude : magnitude;
}

uint64_t BitsAt(const Pattern& pattern, const ElementType& type, size_t index) {
  uint64_t bits = 0;
  pattern.Fill(&bits, index, 1);
  return bits & (type.size == 8 ? ~uint64_t{0} : (uint64_t{1} << (8 * type.size)) - 1);
}

// The type's own arithmetic: one operation, rounded.
uint64_t Apply(weft_op_t op, uint64_t a, uint64_t b, const ElementType& type) {
  if (type.format == Format::kFloat) {
    const double x = Decode(a, type);
    const double y = Decode(b, type);
    switch (op) {
      case WEFT_PROD:
        return EncodeFloat(x * y, type);
      case WEFT_MAX:
        return EncodeFloat(std::max(x, y), type);
      case WEFT_MIN:
        return EncodeFloat(std::min(x, y), type);
      default:
        return EncodeFloat(x + y, type);
    }
  }
  const unsigned unused = 64 - 8 * static_cast<unsigned>(type.size);
  const bool is_signed = type.format == Format::kSigned;
  const auto less = [&](uint64_t x, uint64_t y) {
    if (!is_signed) return x < y;
    return static_cast<int64_t>(x << unused) < static_cast<int64_t>(y << unused);
  };
  const uint64_t mask = ~uint64_t{0} >> unused;
  switch (op) {
    case WEFT_PROD:
      return (a * b) & mask;
    case WEFT_MAX:
      return less(a, b) ? b : a;
    case WEFT_MIN:
      return less(b, a) ? b : a;
    default:
      return (a + b) & mask;
  }
}

// Every type, every reduction but avg, many ranks, forwards, backwards and as a tree, rounding at
// every step: the result must be the expected bits.
TEST(Pattern, ReductionsAreExactInAnyOrder) {
  for (const ElementType& type : ElementTypes()) {
    for (const Reduction& reduction : Reductions()) {
      if (reduction.op == WEFT_AVG) continue;
      for (const size_t ranks : {1, 2, 3, 8, 16, 300}) {
        SCOPED_TRACE(std::string(type.name) + " " + reduction.name + " " + std::to_string(ranks));
        const DataKey key{&type, &reduction, ranks, 17, 200};
        const Pattern reduced = Pattern::Reduced(key);
        std::vector<Pattern> inputs;
        for (size_t rank = 0; rank < ranks; ++rank)
          inputs.push_back(Pattern::Input(key, rank));
        for (size_t i = 0; i < 200; ++i) {
          std::vector<uint64_t> values;
          for (size_t rank = 0; rank < ranks; ++rank) {
            uint64_t value = BitsAt(inputs[static_cast<size_t>(rank)], type, i);
            // What premul_sum adds: twice the value on odd ranks.
            if (IsPremulSum(reduction) && rank % 2 == 1)
              value = Apply(WEFT_SUM, value, value, type);
            values.push_back(value);
          }
          uint64_t forwards = values.front();
          uint64_t backwards = values.back();
          for (size_t r = 1; r < values.size(); ++r) {
            forwards = Apply(reduction.op, forwards, values[r], type);
            backwards = Apply(reduction.op, backwards, values[values.size() - 1 - r], type);
          }
          while (values.size() > 1) {
            std::vector<uint64_t> half;
            for (size_t r = 0; r < values.size(); r += 2) {
              half.push_back(r + 1 < values.size()
                                 ? Apply(reduction.op, values[r], values[r + 1], type)
                                 : values[r]);
            }
            values = half;
          }
          const uint64_t want = BitsAt(reduced, type, i);
          ASSERT_EQ(forwards, want) << i;
          ASSERT_EQ(backwards, want) << i;
          ASSERT_EQ(values[0], want) << i;
        }
      }
    }
  }
}

TEST(Pattern, AveragesOfIntegersDoNotWrapAndTruncate) {
  const DataKey key{FindElementType("int8"), FindReduction("avg"), 5, 3, 100};
  const Pattern reduced = Pattern::Reduced(key);
  for (size_t i = 0; i < 100; ++i) {
    int sum = 0;
    for (int rank = 0; rank < 5; ++rank) {
      sum += static_cast<int8_t>(BitsAt(Pattern::Input(key, rank), *key.type, i));
    }
    ASSERT_LE(std::abs(sum), 127);
    ASSERT_EQ(static_cast<int8_t>(BitsAt(reduced, *key.type, i)), sum / 5) << i;
  }
}

TEST(Pattern, OneCorruptElementIsOneWrong) {
  for (const char* name :
       {"int8", "half", "float", "double", "bfloat16", "uint64", "f8e4m3", "f8e5m2"}) {
    const ElementType& type = *FindElementType(name);
    const DataKey key{&type, FindReduction("sum"), 4, 1};
    const Pattern reduced = Pattern::Reduced(key);
    constexpr size_t kCount = 3 * Pattern::kPeriod + 11;
    std::vector<unsigned char> data(kCount * type.size);
    reduced.Fill(data.data(), 5, kCount);
    ASSERT_EQ(reduced.CountWrong(data.data(), 5, kCount), 0u) << name;
    for (const size_t index : {size_t{0}, kCount / 2, kCount - 1}) {
      data[index * type.size] ^= 1;
      EXPECT_EQ(reduced.CountWrong(data.data(), 5, kCount), 1u) << name << " " << index;
      data[index * type.size] ^= 1;
    }
    data[0] ^= 0xff;
    data[(kCount - 1) * type.size] ^= 0xff;
    EXPECT_EQ(reduced.CountWrong(data.data(), 5, kCount), 2u) << name;
  }
}

TEST(Pattern, AveragesOfFloatsMayDifferByTwoUnits) {
  const ElementType& type = *FindElementType("float");
  const Pattern reduced = Pattern::Reduced({&type, FindReduction("avg"), 3, 1, 1000});
  std::vector<uint32_t> data(1000);
  reduced.Fill(data.data(), 0, data.size());
  data[7] += 2;
  EXPECT_EQ(reduced.CountWrong(data.data(), 0, data.size()), 0u);
  data[7] += 1;
  EXPECT_EQ(reduced.CountWrong(data.data(), 0, data.size()), 1u);
  data[9] ^= 0x80000000u;
  EXPECT_EQ(reduced.CountWrong(data.data(), 0, data.size()), 2u);
}

// Folds all ranks' elements in the type in which weft adds, one after another, from either end.
double Fold(const std::vector<double>& values, bool from_the_end, bool wide) {
  double sum = from_the_end ? values.back() : values.front();
  for (size_t i = 1; i < values.size(); ++i) {
    sum += from_the_end ? values[values.size() - 1 - i] : values[i];
    if (!wide) sum = static_cast<float>(sum);
  }
  return sum;
}

TEST(RealValues, SumsShowTheOrderOfAdditions) {
  for (const char* name : {"half", "float", "double", "bfloat16"}) {
    const ElementType& type = *FindElementType(name);
    const DataKey key{&type, FindReduction("sum"), 5, 1};
    std::vector<Pattern> inputs;
    for (size_t rank = 0; rank < key.ranks; ++rank)
      inputs.push_back(Pattern::OrderSensitive(key, rank));
    size_t different = 0;
    constexpr size_t kElements = 2000;
    for (size_t i = 0; i < kElements; ++i) {
      std::vector<double> values;
      for (const Pattern& input : inputs) {
        const uint64_t bits = BitsAt(input, type, i);
        values.push_back(type.size == 8 ? std::bit_cast<double>(bits) : Decode(bits, type));
        ASSERT_TRUE(std::isfinite(values.back()));
      }
      const bool wide = type.size == 8;
      const uint64_t forwards = EncodeFloat(Fold(values, false, wide), type);
      const uint64_t backwards = EncodeFloat(Fold(values, true, wide), type);
      if (forwards != backwards) ++different;
    }
    EXPECT_GT(different, kElements / 5) << name;
  }
}

TEST(RealValues, NoElementIsInfiniteOrNan) {
  for (const ElementType& type : ElementTypes()) {
    if (type.format != Format::kFloat) continue;
    for (const char* reduction : {"sum", "prod", "mulsum"}) {
      const DataKey key{&type, FindReduction(reduction), 3, 9};
      const Pattern input = Pattern::OrderSensitive(key, 2);
      const uint64_t magnitude = ~(uint64_t{1} << (8 * type.size - 1));
      const uint64_t top = ((uint64_t{1} << type.exponent_bits) - 1) << type.mantissa_bits;
      for (size_t i = 0; i < Pattern::kPeriod; ++i)
        ASSERT_LT(BitsAt(input, type, i) & magnitude, top) << type.name << " " << i;
    }
  }
}

TEST(RealValues, AnElementDoesNotDependOnTheLength) {
  DataKey key{FindElementType("float"), FindReduction("sum"), 4, 3};
  const Pattern whole = Pattern::OrderSensitive(key, 1);
  key.length = 100;
  const Pattern small = Pattern::OrderSensitive(key, 1);
  for (size_t i = 0; i < key.length; ++i)
    ASSERT_EQ(BitsAt(small, *key.type, i), BitsAt(whole, *key.type, i)) << i;
  EXPECT_NE(BitsAt(Pattern::OrderSensitive(key, 2), *key.type, 5), BitsAt(small, *key.type, 5));
}

TEST(Pattern, ShiftedSwappedAndStaleDataIsWrong) {
  const ElementType& type = *FindElementType("float");
  const DataKey key{&type, FindReduction("sum"), 4, 1};
  const Pattern reduced = Pattern::Reduced(key);
  constexpr size_t kCount = 1 << 17;
  std::vector<float> data(kCount + 65536);
  reduced.Fill(data.data(), 0, data.size());
  for (size_t shift = 1; shift <= 65536; shift *= 2) {
    EXPECT_GT(reduced.CountWrong(data.data() + shift, 0, kCount), kCount / 2) << shift;
  }
  // Another operation's result, or one rank's contribution in place of the sum.
  DataKey stale = key;
  stale.seed = 2;
  Pattern::Reduced(stale).Fill(data.data(), 0, kCount);
  EXPECT_GT(reduced.CountWrong(data.data(), 0, kCount), kCount / 2);
  Pattern::Input(key, 0).Fill(data.data(), 0, kCount);
  EXPECT_GT(reduced.CountWrong(data.data(), 0, kCount), kCount / 2);
  Pattern::Input(key, 1).Fill(data.data(), 0, kCount);
  EXPECT_GT(Pattern::Input(key, 0).CountWrong(data.data(), 0, kCount), kCount / 2);
}

TEST(Pattern, MovedValuesHaveAllBits) {
  const ElementType& type = *FindElementType("uint8");
  const Pattern input = Pattern::Input({&type, nullptr, 2, 1}, 0);
  std::vector<unsigned char> data(Pattern::kPeriod);
  input.Fill(data.data(), 0, data.size());
  EXPECT_EQ(std::set<unsigned char>(data.begin(), data.end()).size(), 256u);
}

TEST(Pattern, ChangedCanariesAreCounted) {
  std::vector<unsigned char> guard(64, kCanary);
  EXPECT_EQ(CountChangedCanaries(guard.data(), guard.size()), 0u);
  guard[3] = 0;
  guard[63] = 1;
  EXPECT_EQ(CountChangedCanaries(guard.data(), guard.size()), 2u);
}

}  // namespace
}  // namespace weft::perf::pattern_test
