// Each stage of a reduction by itself against the reference, bit by bit: types x operations x stages x trees x
// counts x places in memory x destinations x instruction sets. What the stages make of each other is
// reduce_pieces_test's.

#include "comm/kernels/reduce_stage.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

#include "base/text.h"
#include "comm/kernels/dtype.h"
#include "comm/kernels/reduce.h"
#include "tests/comm/kernels/guarded_pages.h"
#include "tests/comm/kernels/reference.h"
#include "tests/support/case_sample.h"

namespace weft::reduce_stage_test {
namespace {

constexpr ReduceStage kStages[] = {ReduceStage::kFirst, ReduceStage::kMiddle, ReduceStage::kLast};
constexpr weft_dtype_t kNarrowDtypes[] = {WEFT_FLOAT16, WEFT_BFLOAT16, WEFT_FLOAT8_E4M3,
                                          WEFT_FLOAT8_E5M2};

const char* StageName(ReduceStage stage) {
  constexpr const char* kNames[] = {"whole", "first", "middle", "last"};
  return kNames[static_cast<size_t>(stage)];
}

weft_dtype_t SourceDtype(ReduceStage stage, weft_dtype_t dtype, weft_op_t op) {
  return stage == ReduceStage::kFirst ? dtype : AccumulatorDtype(dtype, op);
}

weft_dtype_t ResultDtype(ReduceStage stage, weft_dtype_t dtype, weft_op_t op) {
  return stage == ReduceStage::kLast ? dtype : AccumulatorDtype(dtype, op);
}

// One stage of unpacked elements; result[i] reduces sources[s][i].
Elements RunStage(Isa isa, ReduceStage stage, weft_dtype_t dtype, weft_op_t op,
                  const std::vector<Elements>& sources, int64_t divisor,
                  const Elements& factors = {}, const std::vector<uint8_t>& merges = {}) {
  std::vector<std::vector<char>> packed;
  std::vector<const void*> pointers;
  packed.reserve(sources.size());
  for (const Elements& elements : sources) {
    packed.push_back(PackElements(SourceDtype(stage, dtype, op), elements));
    pointers.push_back(packed.back().data());
  }
  const weft_dtype_t result_dtype = ResultDtype(stage, dtype, op);
  std::vector<char> result(sources[0].size() * DtypeSize(result_dtype));
  void* destination = result.data();
  FindReduceKernel(isa, dtype, op, stage)(
      {pointers.data(), static_cast<int>(pointers.size()), &destination, 1, sources[0].size(),
       divisor, factors.data(), merges.empty() ? nullptr : merges.data()});
  return Unpack(result_dtype, result);
}

class ReduceStageTest : public testing::TestWithParam<weft_dtype_t> {
 protected:
  static constexpr size_t kCountMax = 200;
  static constexpr int kDestinations = 3;
  static constexpr size_t kMargin = 64;
  static constexpr char kCanary = '\xa5';

  struct Case {
    ReduceStage stage;
    weft_op_t op;
    int source_count;
    int64_t divisor;
    Elements factors;
    std::vector<uint8_t> merges;  // empty: the canonical tree
    std::vector<std::vector<char>> sources;
    std::vector<char> expected;

    ReduceArguments Arguments(const void* const* sources_at, void* const* destinations,
                              int destination_count, size_t count) const {
      return {sources_at, source_count, destinations,   destination_count,
              count,      divisor,      factors.data(), merges.empty() ? nullptr : merges.data()};
    }
  };

  Case MakeCase(ReduceStage stage, weft_op_t op, int source_count, size_t count) {
    Case made{stage, op, source_count, source_count + 3, {}, {}, {}, {}};
    made.factors = Factors(GetParam(), static_cast<size_t>(source_count));
    if (stage != ReduceStage::kFirst && random_() % 4 != 0) {
      made.merges = RandomMerges(source_count, random_);
    }
    const weft_dtype_t source_dtype = SourceDtype(stage, GetParam(), op);
    std::vector<Elements> sources;
    for (int s = 0; s < source_count; ++s) {
      sources.push_back(RandomElements(source_dtype, count, random_));
      made.sources.push_back(PackElements(source_dtype, sources.back()));
    }
    Elements expected(count);
    Elements column(source_count);
    for (size_t i = 0; i < count; ++i) {
      for (int s = 0; s < source_count; ++s)
        column[s] = sources[s][i];
      expected[i] = ReduceStageReference(stage, GetParam(), op, column, made.divisor, made.factors,
                                         made.merges);
    }
    made.expected = PackElements(ResultDtype(stage, GetParam(), op), expected);
    return made;
  }

  std::string Name(const Case& of, Isa isa) const {
    return StrCat(IsaName(isa), " ", DtypeName(GetParam()), " ", OpName(of.op), ", stage ",
                  StageName(of.stage), " of ", of.source_count, " sources, merges ",
                  testing::PrintToString(of.merges), ", --gtest_random_seed=", TestSeed());
  }

  // So that what is left out of one type is tried with another.
  static uint64_t SampleSeed() { return TestSeed() + static_cast<uint64_t>(GetParam()); }

  // Memory ends where the elements do, or they are at an address of any alignment.
  void CheckCount(const Case& of, Isa isa, size_t count, bool at_end) {
    const size_t source_bytes = count * DtypeSize(SourceDtype(of.stage, GetParam(), of.op));
    const size_t bytes = count * DtypeSize(ResultDtype(of.stage, GetParam(), of.op));
    const auto place = [at_end](const GuardedPages& memory, size_t of_bytes, int i) {
      return at_end ? memory.end() - of_bytes : memory.begin() + (i * 7 + 3) % 64 + kMargin;
    };
    std::vector<const void*> sources;
    for (int s = 0; s < of.source_count; ++s) {
      char* const source = place(source_memory_[s], source_bytes, s);
      std::memcpy(source, of.sources[s].data(), source_bytes);
      sources.push_back(source);
    }
    const int destination_count = 1 + static_cast<int>(count % kDestinations);
    std::vector<void*> destinations;
    for (int d = 0; d < destination_count; ++d) {
      char* const destination = place(destination_memory_[d], bytes, d + 20);
      std::memset(destination - kMargin, kCanary, bytes + (at_end ? 1 : 2) * kMargin);
      destinations.push_back(destination);
    }
    FindReduceKernel(isa, GetParam(), of.op, of.stage)(
        of.Arguments(sources.data(), destinations.data(), destination_count, count));
    for (const void* const at : destinations) {
      const char* const destination = static_cast<const char*>(at);
      ASSERT_EQ(std::memcmp(destination, of.expected.data(), bytes), 0)
          << Name(of, isa) << ", " << count << " elements into " << destination_count;
      const auto is_canary = [](char byte) {
        return byte == kCanary;
      };
      ASSERT_TRUE(
          std::all_of(destination - kMargin, destination, is_canary) &&
          (at_end || std::all_of(destination + bytes, destination + bytes + kMargin, is_canary)))
          << Name(of, isa) << ": wrote outside of " << count << " elements";
    }
  }

  void CheckCounts(const Case& of, Isa isa) {
    for (size_t count = 0; count <= kCountMax; ++count) {
      ASSERT_NO_FATAL_FAILURE(CheckCount(of, isa, count, true));
      ASSERT_NO_FATAL_FAILURE(CheckCount(of, isa, count, false));
    }
  }

  // Reduces into the last `destination_count` sources.
  void CheckInPlace(const Case& of, Isa isa, int destination_count, size_t count) const {
    std::vector<std::vector<char>> buffers = of.sources;
    std::vector<void*> pointers;
    pointers.reserve(buffers.size());
    for (std::vector<char>& buffer : buffers)
      pointers.push_back(buffer.data());
    const int first = of.source_count - destination_count;
    FindReduceKernel(isa, GetParam(), of.op, of.stage)(
        of.Arguments(pointers.data(), pointers.data() + first, destination_count, count));
    for (int s = 0; s < of.source_count; ++s) {
      const std::vector<char>& expected = s < first ? of.sources[s] : of.expected;
      EXPECT_EQ(std::memcmp(buffers[s].data(), expected.data(), expected.size()), 0)
          << Name(of, isa) << ", source " << s << " of which the last " << destination_count
          << " are destinations";
    }
  }

  std::mt19937_64 random_{TestSeed()};
  const std::vector<GuardedPages> source_memory_{kSourcesMax};
  const std::vector<GuardedPages> destination_memory_{kDestinations};
};

TEST_P(ReduceStageTest, EveryInstructionSetGivesTheReferencesBits) {
  const test::CaseSample sample({.every = 11, .sanitized = 31}, SampleSeed());
  size_t number = 0;
  for (const ReduceStage stage : kStages) {
    for (const weft_op_t op : OpsOf(GetParam())) {
      for (const int source_count : {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 16, 17, 33, 64}) {
        if (!sample.Takes(number++)) continue;
        const Case made = MakeCase(stage, op, source_count, kCountMax);
        for (const Isa isa : AvailableIsas()) {
          ASSERT_NO_FATAL_FAILURE(CheckCounts(made, isa));
        }
      }
    }
  }
  sample.Print(StrCat("stages, operations and sources of ", DtypeName(GetParam())), number);
}

// Longer than the tiles in which the last stage rounds.
TEST_P(ReduceStageTest, LongCallsAreAsShortOnes) {
  const test::CaseSample sample({.every = 3, .sanitized = 7}, SampleSeed());
  size_t number = 0;
  for (const ReduceStage stage : kStages) {
    for (const weft_op_t op : OpsOf(GetParam())) {
      for (const size_t count : {1023, 1024, 1025, 3000}) {
        if (!sample.Takes(number++)) continue;
        const Case made = MakeCase(stage, op, 3, count);
        const std::vector<const void*> sources{made.sources[0].data(), made.sources[1].data(),
                                               made.sources[2].data()};
        for (const Isa isa : AvailableIsas()) {
          std::vector<char> first(made.expected.size());
          std::vector<char> second(made.expected.size());
          void* const destinations[] = {first.data(), second.data()};
          FindReduceKernel(isa, GetParam(), op,
                           stage)(made.Arguments(sources.data(), destinations, 2, count));
          ASSERT_TRUE(first == made.expected && second == made.expected)
              << Name(made, isa) << ", " << count << " elements";
        }
      }
    }
  }
  sample.Print(StrCat("long stages and operations of ", DtypeName(GetParam())), number);
}

TEST_P(ReduceStageTest, ADestinationOfTheLastStagesMayBeASource) {
  constexpr size_t kCount = 2500;
  constexpr int kSources = 5;
  for (const ReduceStage stage : {ReduceStage::kMiddle, ReduceStage::kLast}) {
    for (const weft_op_t op : OpsOf(GetParam())) {
      const Case made = MakeCase(stage, op, kSources, kCount);
      for (const Isa isa : AvailableIsas()) {
        CheckInPlace(made, isa, 1, kCount);
        CheckInPlace(made, isa, kSources, kCount);
      }
    }
  }
}

#if defined(__SSE2__)
TEST_P(ReduceStageTest, DoNotDependOnTheCallersFloatingPointMode) {
  const unsigned saved = _mm_getcsr();
  const unsigned hostile = 0x1f80u | 0x8000u | 0x0040u | 0x4000u;  // flush, zero, upward
  for (const ReduceStage stage : kStages) {
    for (const weft_op_t op : OpsOf(GetParam())) {
      const Elements special = SpecialElements(SourceDtype(stage, GetParam(), op));
      const Elements reversed(special.rbegin(), special.rend());
      const Elements factors = Factors(GetParam(), 2);
      const std::vector<uint8_t> merges =
          stage == ReduceStage::kFirst ? std::vector<uint8_t>{} : std::vector<uint8_t>{0, 1};
      for (const Isa isa : AvailableIsas()) {
        const auto run = [&] {
          return RunStage(isa, stage, GetParam(), op, {special, reversed}, 3, factors, merges);
        };
        const Elements expected = run();
        _mm_setcsr(hostile);
        const Elements result = run();
        const unsigned after = _mm_getcsr();
        _mm_setcsr(saved);
        ASSERT_EQ(result, expected) << IsaName(isa) << " " << DtypeName(GetParam()) << " "
                                    << OpName(op) << " " << StageName(stage);
        ASSERT_EQ(after & 0xffc0u, hostile) << IsaName(isa) << " " << DtypeName(GetParam());
      }
    }
  }
}
#endif

INSTANTIATE_TEST_SUITE_P(Dtypes, ReduceStageTest, testing::ValuesIn(kDtypes),
                         [](const auto& info) { return std::string(DtypeName(info.param)); });

// Whatever the registers hold meanwhile, such as float8 times a power of two.
TEST(ReduceStage, AccumulatorsInMemoryAreTheTrueValues) {
  for (const weft_dtype_t dtype : kNarrowDtypes) {
    Elements all(size_t{1} << (8 * DtypeSize(dtype)));
    Elements expected(all.size());
    for (size_t bits = 0; bits < all.size(); ++bits) {
      all[bits] = bits;
      const float value = DecodeFloat(dtype, bits);
      expected[bits] = std::isnan(value) ? QuietNan(WEFT_FLOAT32) : std::bit_cast<uint32_t>(value);
    }
    for (const Isa isa : AvailableIsas()) {
      for (const weft_op_t op : {WEFT_SUM, WEFT_PROD, WEFT_AVG}) {
        EXPECT_EQ(RunStage(isa, ReduceStage::kFirst, dtype, op, {all}, 0), expected)
            << IsaName(isa) << " " << DtypeName(dtype) << " " << OpName(op);
      }
      const Elements one{std::bit_cast<uint32_t>(1.0f)};
      EXPECT_EQ(RunStage(isa, ReduceStage::kFirst, dtype, kOpPremulSum, {all}, 0, one), expected)
          << IsaName(isa) << " " << DtypeName(dtype);
    }
  }
}

// Every exponent, and mantissas whose last kept bit is odd and even, with nothing, a little, almost a tie, a
// tie and more behind it, for every number of kept bits that a denormal may have.
TEST(ReduceStage, TheLastRoundsFloat32AtEveryExponent) {
  Elements values;
  for (uint32_t exponent = 0; exponent < 256; ++exponent) {
    for (int kept_bits = 0; kept_bits <= 10; ++kept_bits) {
      const uint32_t tie = 1u << (22 - kept_bits);
      const uint32_t kept_max = (1u << kept_bits) - 1;
      for (const uint32_t kept : {0u, 1u, 2u, 0x2bu, kept_max - 1, kept_max}) {
        for (const uint32_t rest : {0u, 1u, tie - 1, tie, tie + 1, 2 * tie - 1}) {
          const uint32_t bits = exponent << 23 | (kept & kept_max) << (23 - kept_bits) | rest;
          values.push_back(bits);
          values.push_back(bits | 0x80000000u);
        }
      }
    }
  }
  for (const weft_dtype_t dtype : kNarrowDtypes) {
    Elements expected;
    for (const uint64_t bits : values)
      expected.push_back(EncodeFloat(dtype, std::bit_cast<float>(static_cast<uint32_t>(bits))));
    for (const Isa isa : AvailableIsas()) {
      const Elements result = RunStage(isa, ReduceStage::kLast, dtype, WEFT_SUM, {values}, 0);
      for (size_t i = 0; i < values.size(); ++i) {
        ASSERT_EQ(result[i], expected[i])
            << IsaName(isa) << " " << DtypeName(dtype) << " of float32 bits " << values[i];
      }
    }
  }
}

TEST(ReduceStage, OverflowsOnlyInTheLast) {
  // 448 + 448 - 448 - 448 + 1: no partial sum is a float8_e4m3.
  const auto accumulators = [](Isa isa, weft_dtype_t dtype, const std::vector<Elements>& sources) {
    return RunStage(isa, ReduceStage::kFirst, dtype, WEFT_SUM, sources, 0);
  };
  const auto value = [](float of) {
    return Elements{std::bit_cast<uint32_t>(of)};
  };
  for (const Isa isa : AvailableIsas()) {
    const Elements e4m3 = accumulators(isa, WEFT_FLOAT8_E4M3, {{0x7e}, {0x7e}});
    EXPECT_EQ(e4m3, value(896));
    EXPECT_EQ(RunStage(isa, ReduceStage::kLast, WEFT_FLOAT8_E4M3, WEFT_SUM, {e4m3, value(-895)}, 0),
              Elements{0x38});
    EXPECT_EQ(RunStage(isa, ReduceStage::kLast, WEFT_FLOAT8_E4M3, WEFT_SUM, {e4m3}, 0),
              Elements{0x7e});
    EXPECT_EQ(RunStage(isa, ReduceStage::kLast, WEFT_FLOAT8_E4M3, WEFT_SUM, {value(INFINITY)}, 0),
              Elements{0x7e});
    const Elements e5m2 = accumulators(isa, WEFT_FLOAT8_E5M2, {{0x7b}, {0x7b}});
    EXPECT_EQ(e5m2, value(114688));
    EXPECT_EQ(RunStage(isa, ReduceStage::kLast, WEFT_FLOAT8_E5M2, WEFT_SUM, {e5m2}, 0),
              Elements{0x7c});
    EXPECT_EQ(RunStage(isa, ReduceStage::kLast, WEFT_FLOAT8_E5M2, WEFT_AVG, {e5m2}, 2),
              Elements{0x7b});
    EXPECT_EQ(accumulators(isa, WEFT_FLOAT8_E5M2, {{0x7c}, {0x01}}), value(INFINITY));
    const Elements f16 = accumulators(isa, WEFT_FLOAT16, {{0x7bff}, {0x7bff}});
    EXPECT_EQ(f16, value(131008));
    EXPECT_EQ(RunStage(isa, ReduceStage::kLast, WEFT_FLOAT16, WEFT_AVG, {f16}, 2),
              Elements{0x7bff});
  }
}

TEST(ReduceStage, MergesAreTheOrderOfTheSums) {
  const auto value = [](float of) {
    return Elements{std::bit_cast<uint32_t>(of)};
  };
  const std::vector<Elements> sources{value(0x1p24f), value(1), value(1), value(-0x1p24f)};
  const auto sum = [&](Isa isa, const std::vector<uint8_t>& merges) {
    return RunStage(isa, ReduceStage::kMiddle, WEFT_FLOAT32, WEFT_SUM, sources, 0, {}, merges);
  };
  for (const Isa isa : AvailableIsas()) {
    EXPECT_EQ(sum(isa, {}), value(1));            // (2^24 + 1) + (1 - 2^24): the first 1 is lost
    EXPECT_EQ(sum(isa, {0, 1, 0, 2}), value(1));  // the same
    EXPECT_EQ(sum(isa, {0, 1, 1, 1}), value(0));  // ((2^24 + 1) + 1) - 2^24
    EXPECT_EQ(sum(isa, {0, 0, 1, 2}), value(2));  // 2^24 + ((1 + 1) - 2^24)
  }
}

// What need not be rounded again has no kernels of its own.
TEST(ReduceStage, WideTypesAndOrderFreeOperationsReuseTheirKernels) {
  const Isa isa = BestIsa();
  for (const weft_dtype_t dtype : kDtypes) {
    for (const weft_op_t op : OpsOf(dtype)) {
      if (op == WEFT_AVG || op == kOpPremulSum) continue;
      const ReduceKernel whole = FindReduceKernel(isa, dtype, op);
      EXPECT_EQ(FindReduceKernel(isa, dtype, op, ReduceStage::kWhole), whole);
      if (AccumulatorDtype(dtype, op) == dtype) {
        EXPECT_EQ(FindReduceKernel(isa, dtype, op, ReduceStage::kFirst), whole);
      }
      if (RoundsOnTheWay(dtype, op)) continue;
      EXPECT_EQ(FindReduceKernel(isa, dtype, op, ReduceStage::kMiddle), whole);
      EXPECT_EQ(FindReduceKernel(isa, dtype, op, ReduceStage::kLast), whole);
    }
  }
  const ReduceKernel sum = FindReduceKernel(isa, WEFT_INT32, WEFT_SUM);
  EXPECT_EQ(FindReduceKernel(isa, WEFT_INT32, WEFT_AVG, ReduceStage::kFirst), sum);
  EXPECT_EQ(FindReduceKernel(isa, WEFT_INT32, kOpPremulSum, ReduceStage::kLast), sum);
}

TEST(ReduceStage, EveryReductionHasAllStagesAndNothingElseHasOne) {
  for (int dtype = -1; dtype < 130; ++dtype) {
    for (int op = -1; op < 1030; ++op) {
      const auto dtype_of = static_cast<weft_dtype_t>(dtype);
      const auto op_of = static_cast<weft_op_t>(op);
      const bool exists = FindReduceKernel(BestIsa(), dtype_of, op_of) != nullptr;
      for (const ReduceStage stage : kStages) {
        ASSERT_EQ(FindReduceKernel(BestIsa(), dtype_of, op_of, stage) != nullptr, exists)
            << "type " << dtype << " op " << op << " stage " << StageName(stage);
      }
    }
  }
}

TEST(ReduceStageDeathTest, MergesAreATree) {
  const std::vector<Elements> sources(3, Elements(1, 0));
  const auto sum = [&](const std::vector<uint8_t>& merges) {
    RunStage(BestIsa(), ReduceStage::kMiddle, WEFT_FLOAT32, WEFT_SUM, sources, 0, {}, merges);
  };
  EXPECT_DEATH(sum({0, 1, 0}), "check failed");  // two results
  EXPECT_DEATH(sum({0, 2, 0}), "check failed");  // nothing to join
  EXPECT_DEATH(sum({1, 0, 1}), "check failed");
}

}  // namespace
}  // namespace weft::reduce_stage_test
