// min_loc and max_loc against a slow reference: every type, special values, ties, places in memory.

#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "comm/kernels/dtype.h"
#include "comm/kernels/reduce.h"
#include "tests/comm/kernels/reference.h"

namespace weft::loc_test {
namespace {

constexpr size_t kPairBytes = 16;

struct Pair {
  uint64_t bits;
  int64_t index;
};

// A value as a number that holds all of them exactly, with what a number cannot say.
struct Ordered {
  bool nan;
  long double value;
  bool minus_zero;
};

Ordered Order(weft_dtype_t dtype, uint64_t bits) {
  if (dtype == WEFT_INT8)
    return {false, static_cast<long double>(static_cast<int8_t>(bits)), false};
  if (dtype == WEFT_INT32)
    return {false, static_cast<long double>(static_cast<int32_t>(bits)), false};
  if (dtype == WEFT_INT64)
    return {false, static_cast<long double>(static_cast<int64_t>(bits)), false};
  if (!IsFloatingDtype(dtype)) return {false, static_cast<long double>(bits), false};
  const double value =
      dtype == WEFT_FLOAT64 ? std::bit_cast<double>(bits) : double{DecodeFloat(dtype, bits)};
  return {std::isnan(value), value, value == 0 && std::signbit(value)};
}

// Whether `left` is chosen.
bool IsBetter(weft_dtype_t dtype, weft_op_t op, const Pair& left, const Pair& right) {
  const Ordered a = Order(dtype, left.bits);
  const Ordered b = Order(dtype, right.bits);
  if (a.nan || b.nan) return a.nan && (!b.nan || left.index < right.index);
  if (a.value != b.value) return (a.value < b.value) == (op == WEFT_MIN_LOC);
  if (a.minus_zero != b.minus_zero) return a.minus_zero == (op == WEFT_MIN_LOC);
  return left.index < right.index;
}

Pair Reference(weft_dtype_t dtype, weft_op_t op, const std::vector<Pair>& column) {
  Pair best = column[0];
  for (const Pair& pair : column) {
    if (IsBetter(dtype, op, pair, best)) best = pair;
  }
  if (Order(dtype, best.bits).nan) best.bits = QuietNan(dtype);
  return best;
}

// `padding` fills what lies between value and index.
std::vector<char> PackPairs(weft_dtype_t dtype, const std::vector<Pair>& pairs, char padding) {
  std::vector<char> bytes(pairs.size() * kPairBytes, padding);
  for (size_t i = 0; i < pairs.size(); ++i) {
    std::memcpy(&bytes[i * kPairBytes], &pairs[i].bits, DtypeSize(dtype));
    std::memcpy(&bytes[i * kPairBytes + 8], &pairs[i].index, 8);
  }
  return bytes;
}

// Reduces `sources` on every instruction set: apart, unaligned, and into the last source.
void ExpectPairs(weft_dtype_t dtype, weft_op_t op, const std::vector<std::vector<Pair>>& sources) {
  const size_t count = sources[0].size();
  std::vector<Pair> expected;
  for (size_t i = 0; i < count; ++i) {
    std::vector<Pair> column;
    for (const std::vector<Pair>& source : sources)
      column.push_back(source[i]);
    expected.push_back(Reference(dtype, op, column));
  }
  std::vector<char> result = PackPairs(dtype, expected, 0);
  result.insert(result.begin(), '\x5a');  // stands before what is written
  result.push_back('\x5a');
  for (const Isa isa : AvailableIsas()) {
    std::vector<std::vector<char>> packed;
    std::vector<const void*> pointers;
    for (const std::vector<Pair>& source : sources) {
      packed.push_back(PackPairs(dtype, source, '\xa5'));
      packed.back().insert(packed.back().begin(), '\x5a');
      packed.back().push_back('\x5a');
    }
    for (const std::vector<char>& bytes : packed)
      pointers.push_back(bytes.data() + 1);
    std::vector<char> apart(result.size(), '\x5a');
    void* const destinations[] = {apart.data() + 1, packed.back().data() + 1};
    FindReduceKernel(isa, dtype, op)(
        {pointers.data(), static_cast<int>(pointers.size()), destinations, 2, count, 0});
    ASSERT_EQ(apart, result) << IsaName(isa) << " " << DtypeName(dtype) << " " << OpName(op)
                             << " of " << sources.size() << " sources";
    ASSERT_EQ(packed.back(), result) << IsaName(isa) << " " << DtypeName(dtype) << " " << OpName(op)
                                     << " in place of " << sources.size() << " sources";
  }
}

class LocTest : public testing::TestWithParam<weft_dtype_t> {};

TEST_P(LocTest, SpecialValuesMeetWithEveryOrderOfIndices) {
  const Elements special = SpecialElements(GetParam());
  std::vector<std::vector<Pair>> sources(2);
  for (const uint64_t left : special) {
    for (const uint64_t right : special) {
      for (const int64_t index : {int64_t{-1}, int64_t{0}, int64_t{1}, INT64_MIN, INT64_MAX}) {
        sources[0].push_back({left, 0});
        sources[1].push_back({right, index});
      }
    }
  }
  for (const weft_op_t op : {WEFT_MIN_LOC, WEFT_MAX_LOC})
    ExpectPairs(GetParam(), op, sources);
}

TEST_P(LocTest, AnyNumberOfSourcesGivesTheReferencesPair) {
  std::mt19937_64 random(TestSeed());
  const Elements special = SpecialElements(GetParam());
  const size_t bits = 8 * DtypeSize(GetParam());
  for (const size_t source_count : {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 33, 64}) {
    std::vector<std::vector<Pair>> sources(source_count);
    for (std::vector<Pair>& source : sources) {
      for (int i = 0; i < 301; ++i) {
        // Few values on purpose: ties decide.
        const uint64_t any = random() >> (64 - bits);
        const uint64_t value = random() % 2 == 0 ? special[random() % special.size()] : any;
        source.push_back({value, static_cast<int64_t>(random() % 8)});
      }
    }
    for (const weft_op_t op : {WEFT_MIN_LOC, WEFT_MAX_LOC}) {
      SCOPED_TRACE(testing::Message() << "--gtest_random_seed=" << TestSeed());
      ExpectPairs(GetParam(), op, sources);
    }
  }
}

TEST_P(LocTest, NoElementsAreNotTouched) {
  char untouched[kPairBytes] = {'x'};
  const void* const source = untouched;
  void* const destination = untouched;
  for (const weft_op_t op : {WEFT_MIN_LOC, WEFT_MAX_LOC}) {
    FindReduceKernel(BestIsa(), GetParam(), op)({&source, 1, &destination, 1, 0, 0});
    EXPECT_EQ(untouched[0], 'x');
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, LocTest,
                         testing::ValuesIn(std::vector<weft_dtype_t>(std::begin(kDtypes),
                                                                     std::end(kDtypes) - 1)),
                         [](const auto& info) { return std::string(DtypeName(info.param)); });

// One pair each, by hand.
struct FloatPair {
  float value;
  int64_t index;
};

void ExpectChosen(weft_op_t op, std::vector<FloatPair> given, FloatPair expected) {
  std::vector<std::vector<Pair>> sources;
  for (const FloatPair& pair : given)
    sources.push_back({{std::bit_cast<uint32_t>(pair.value), pair.index}});
  const Pair by_hand{
      std::isnan(expected.value) ? 0x7fc00000u : std::bit_cast<uint32_t>(expected.value),
      expected.index};
  std::vector<Pair> column;
  for (const std::vector<Pair>& source : sources)
    column.push_back(source[0]);
  const Pair reference = Reference(WEFT_FLOAT32, op, column);
  EXPECT_EQ(reference.bits, by_hand.bits);
  EXPECT_EQ(reference.index, by_hand.index);
  ExpectPairs(WEFT_FLOAT32, op, sources);
}

TEST(Loc, FollowsTheRulesOfTheHeader) {
  const float nan = NAN;
  ExpectChosen(WEFT_MIN_LOC, {{3, 0}, {1, 7}, {2, 1}}, {1, 7});
  ExpectChosen(WEFT_MAX_LOC, {{3, 9}, {1, 7}, {3, 2}}, {3, 2});  // equal: the lower index
  ExpectChosen(WEFT_MIN_LOC, {{1, -5}, {1, 0}}, {1, -5});
  ExpectChosen(WEFT_MIN_LOC, {{-1, 0}, {nan, 8}, {nan, 4}}, {nan, 4});
  ExpectChosen(WEFT_MAX_LOC, {{nan, 3}, {INFINITY, 0}, {-nan, 1}}, {nan, 1});
  ExpectChosen(WEFT_MIN_LOC, {{0.0f, 0}, {-0.0f, 1}}, {-0.0f, 1});
  ExpectChosen(WEFT_MAX_LOC, {{-0.0f, 0}, {0.0f, 1}}, {0.0f, 1});
  ExpectChosen(WEFT_MIN_LOC, {{-nan, 6}}, {nan, 6});
}

}  // namespace
}  // namespace weft::loc_test
