#include "shard/layout/global_interval.h"

#include <limits>
#include <string>
#include <vector>

#include "weft/shard.h"

#include "base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shard/layout/registry.h"

namespace weft::global_interval_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

ParamSpec Slice(const char* name, size_t begin, size_t count, std::vector<int64_t> whole = {100}) {
  ParamSpec spec;
  spec.name = name;
  spec.count = count;
  spec.global = WholeTensor("w", whole, 100);
  spec.global.begin = begin;
  return spec;
}

std::string Refusal(const std::vector<ParamSpec>& params) {
  const absl::Status status = CheckGlobalIntervals(params);
  EXPECT_EQ(ResultOf(status), WEFT_INVALID_ARGUMENT) << status;
  return std::string(status.message());
}

TEST(GlobalInterval, IsTheWholeParamUnlessItSaysSomethingElse) {
  Registry registry;
  const int unit = *registry.BeginUnit("u");
  const int64_t shape[] = {4, 3};
  const int param = *registry.AddParam(unit, "p", shape, 2, WEFT_FLOAT32);
  const ParamSpec& spec = registry.params()[static_cast<size_t>(param)];
  EXPECT_EQ(spec.global, (GlobalInterval{"p", {4, 3}, 12, 0}));
  const int64_t whole[] = {8, 3};
  ASSERT_TRUE(registry.SetGlobal(param, "w", whole, 2, 12).ok());
  EXPECT_EQ(spec.global, (GlobalInterval{"w", {8, 3}, 24, 12}));
  EXPECT_EQ(ResultOf(registry.SetGlobal(param, "w", whole, 2, 13)), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(ResultOf(registry.SetGlobal(param, "w", whole, 2, SIZE_MAX)), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(ResultOf(registry.SetGlobal(param, "", whole, 2, 0)), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(spec.global.begin, 12u) << "an error changes nothing";
}

TEST(GlobalInterval, IsPartOfWhatRanksMustAgreeOn) {
  Registry registry;
  const int unit = *registry.BeginUnit("u");
  const int64_t shape[] = {4, 3};
  const int param = *registry.AddParam(unit, "p", shape, 2, WEFT_FLOAT32);
  EXPECT_EQ(registry.Entries()[1].facts, "shape [4, 3] float32");
  const int64_t whole[] = {8, 3};
  ASSERT_TRUE(registry.SetGlobal(param, "w", whole, 2, 12).ok());
  EXPECT_EQ(registry.Entries()[1].facts, "shape [4, 3] float32 from element 12 of w [8, 3]");
  ASSERT_TRUE(registry.SetGlobal(param, "p", shape, 2, 0).ok());
  EXPECT_EQ(registry.Entries()[1].facts, "shape [4, 3] float32") << "as if nothing had been said";
}

TEST(GlobalInterval, EmptyOnesOverlapNothing) {
  EXPECT_TRUE(CheckGlobalIntervals({}).ok());
  EXPECT_TRUE(CheckGlobalIntervals(
                  {Slice("a", 0, 100), Slice("b", 50, 0), Slice("c", 100, 0), Slice("d", 0, 0)})
                  .ok());
  Registry registry;
  const int unit = *registry.BeginUnit("u");
  const int64_t none[] = {0, 3};
  const int param = *registry.AddParam(unit, "p", none, 2, WEFT_FLOAT32);
  EXPECT_TRUE(registry.SetGlobal(param, "w", none, 2, 0).ok());
}

// Every pair of intervals of a small tensor, declared in both orders, beside a third param.
TEST(GlobalInterval, OverlapsAreFoundWhateverTheOrder) {
  constexpr size_t kTotal = 7;
  for (size_t first = 0; first < kTotal; ++first) {
    for (size_t count = 0; first + count <= kTotal; ++count) {
      for (size_t other = 0; other < kTotal; ++other) {
        for (size_t others = 0; other + others <= kTotal; ++others) {
          bool share = false;
          for (size_t i = 0; i < kTotal; ++i) {
            share = share || (i >= first && i < first + count && i >= other && i < other + others);
          }
          const std::vector<ParamSpec> params = {Slice("a", first, count), Slice("empty", other, 0),
                                                 Slice("b", other, others)};
          EXPECT_EQ(CheckGlobalIntervals(params).ok(), !share)
              << first << "+" << count << " " << other << "+" << others;
        }
      }
    }
  }
}

TEST(GlobalInterval, BothParamsAreNamed) {
  EXPECT_THAT(Refusal({Slice("late", 40, 20), Slice("other", 0, 10), Slice("early", 30, 11)}),
              AllOf(HasSubstr("parameter early is elements 30 to 40 and parameter late is elements "
                              "40 to 59"),
                    testing::Not(HasSubstr("other"))));
  EXPECT_THAT(Refusal({Slice("a", 0, 10), Slice("b", 10, 10, {10, 10})}),
              HasSubstr("shape [100] for parameter a and [10, 10] for parameter b"));
  ParamSpec half = Slice("b", 10, 10);
  half.dtype = WEFT_BFLOAT16;
  EXPECT_THAT(Refusal({Slice("a", 0, 10), half}),
              HasSubstr("parameter a is float32 and parameter b is bfloat16"));
}

TEST(GlobalInterval, ShapesAreCountedWithoutOverflow) {
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  const int64_t shape[] = {kHuge, kHuge, 0};
  EXPECT_EQ(*CountOfShape("call", "x", shape, 3), 0u);
  EXPECT_EQ(*CountOfShape("call", "x", nullptr, 0), 1u);
  EXPECT_EQ(ResultOf(CountOfShape("call", "x", shape, 2).status()), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(ResultOf(CountOfShape("call", "x", shape, 1).status()), WEFT_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace weft::global_interval_test
