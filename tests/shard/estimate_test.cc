#include "shard/plan/estimate.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>

#include "base/status.h"
#include "gtest/gtest.h"
#include "shard/layout/placement.h"

namespace weft::estimate_test {
namespace {

// `value` as a paper's table has it: "31.4".
std::string Printed(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.*f", digits, value);
  return text;
}

std::string StatesInGb(const EstimateInput& input, weft_shard_preset_t strategy, int digits) {
  return Printed(EstimateStrategy(input, strategy).rest.Total() / 1e9, digits);
}

TEST(Estimate, ReproducesThe7BillionTableInFloat32) {
  const EstimateInput input{.param_count = 7e9, .ranks = 4, .mix = kFp32Mix, .largest_unit = 7e9};
  EXPECT_EQ(StatesInGb(input, WEFT_SHARD_NO_SHARD, 0), "112");
  EXPECT_EQ(StatesInGb(input, WEFT_SHARD_ZERO1, 0), "70");
  EXPECT_EQ(StatesInGb(input, WEFT_SHARD_ZERO2, 0), "49");
  EXPECT_EQ(StatesInGb(input, WEFT_SHARD_FULL_SHARD, 0), "28");
}

TEST(Estimate, ReproducesTheZeroPaperFor64Ranks) {
  const EstimateInput input{
      .param_count = 7.5e9, .ranks = 64, .mix = kFp16Mix, .largest_unit = 7.5e9};
  EXPECT_EQ(StatesInGb(input, WEFT_SHARD_NO_SHARD, 0), "120");
  EXPECT_EQ(StatesInGb(input, WEFT_SHARD_ZERO1, 1), "31.4");
  EXPECT_EQ(StatesInGb(input, WEFT_SHARD_ZERO2, 1), "16.6");
  EXPECT_EQ(StatesInGb(input, WEFT_SHARD_FULL_SHARD, 1), "1.9");
}

TEST(Estimate, ReproducesMegatronsBytesPerParam) {
  struct Row {
    BytesPerElement mix;
    double whole;
    double fixed;  // fixed + cut / ranks
    double cut;
  };

  // Megatron's float16 row has float32 gradients beside the float16 ones: part of what the
  // optimizer owns.
  const Row rows[] = {{{.params = 2, .main = 4 + 4, .gradients = 2, .optimizer = 8}, 20, 4, 16},
                      {kBf16Mix, 18, 6, 12},
                      {kFp32Mix, 16, 8, 8}};
  for (const Row& row : rows) {
    for (const int ranks : {1, 2, 3, 8, 64}) {
      const double params = 3 << 20;
      const EstimateInput input{
          .param_count = params, .ranks = ranks, .mix = row.mix, .largest_unit = params};
      EXPECT_DOUBLE_EQ(EstimateStrategy(input, WEFT_SHARD_NO_SHARD).rest.Total(),
                       params * row.whole);
      EXPECT_DOUBLE_EQ(EstimateStrategy(input, WEFT_SHARD_ZERO1).rest.Total(),
                       params * (row.fixed + row.cut / ranks))
          << row.whole << " bytes, " << ranks << " ranks";
    }
  }
}

// "Memory Requirements" of DeepSpeed's documentation, t5-3b on 8 GPUs. Its ZeRO-2 keeps 16-bit gradients unsharded and shards
// float32 ones beside the main copy; its ZeRO-3 counts 18 bytes, and 4 for each param of the layer that is gathered.
TEST(Estimate, ReproducesDeepSpeedsFigures) {
  constexpr double kGib = 1 << 30;
  EstimateInput input{.param_count = 2851598336,
                      .ranks = 8,
                      .mix = {.params = 2, .main = 4 + 4, .gradients = 2, .optimizer = 8},
                      .largest_unit = 32899072};
  const double zero2 = EstimateStrategy(input, WEFT_SHARD_ZERO1).rest.Total();
  EXPECT_EQ(Printed(zero2 / kGib, 2), "15.93");
  input.mix.main = 4 + 2;
  const double zero3 = EstimateStrategy(input, WEFT_SHARD_FULL_SHARD).rest.Total();
  EXPECT_EQ(Printed((zero3 + 4 * input.largest_unit) / kGib, 2), "6.10");
}

TEST(Estimate, CutsWhatTheTableOfPlacementsSays) {
  const double all = 240 << 10;
  const EstimateInput input{.param_count = all,
                            .ranks = 8,
                            .mix = {.params = 2, .main = 3, .gradients = 4, .optimizer = 5},
                            .largest_unit = all / 8,
                            .shard_group = 2,
                            .budget_bytes = 1};

  struct Row {
    weft_shard_preset_t strategy;
    double params, optimizer, gradients;  // shares
  };

  const double eighth = 1.0 / 8;
  for (const Row& row :
       {Row{WEFT_SHARD_NO_SHARD, 1, 1, 1}, Row{WEFT_SHARD_ZERO1, 1, eighth, 1},
        Row{WEFT_SHARD_ZERO2, 1, eighth, eighth}, Row{WEFT_SHARD_GRAD_OP, eighth, eighth, eighth},
        Row{WEFT_SHARD_FULL_SHARD, eighth, eighth, eighth},
        Row{WEFT_SHARD_HYBRID_SHARD, 0.5, 0.5, 0.5}, Row{WEFT_SHARD_HPZ, eighth, eighth, eighth},
        Row{WEFT_SHARD_FRACTION, eighth, eighth, eighth}}) {
    const RestBytes rest = EstimateStrategy(input, row.strategy).rest;
    EXPECT_EQ(rest.params, 2 * all * row.params) << StrategyName(row.strategy);
    EXPECT_EQ(rest.main, 3 * all * row.optimizer) << StrategyName(row.strategy);
    EXPECT_EQ(rest.gradients, 4 * all * row.gradients) << StrategyName(row.strategy);
    EXPECT_EQ(rest.optimizer, 5 * all * row.optimizer) << StrategyName(row.strategy);
  }
}

// Large enough that padding and the merging of buckets do not show, and that a unit is a bucket.
EstimateInput TwelveUnits() {
  constexpr double kUnit = 1 << 24;
  return {.param_count = 12 * kUnit,
          .ranks = 8,
          .largest_unit = kUnit,
          .shard_group = 4,
          .budget_bytes = 1e12};
}

TEST(Estimate, ForwardHoldsTwoUnitsAndBackwardThree) {
  const EstimateInput input = TwelveUnits();
  const double unit = input.largest_unit * 4;
  for (const weft_shard_preset_t strategy : {WEFT_SHARD_FULL_SHARD, WEFT_SHARD_HYBRID_SHARD}) {
    EXPECT_EQ(EstimateStrategy(input, strategy).forward_bytes, 2 * unit);
    EXPECT_EQ(EstimateStrategy(input, strategy).backward_bytes, 3 * unit);
  }
  EXPECT_EQ(EstimateStrategy(input, WEFT_SHARD_ZERO2).backward_bytes, 2 * unit);
  EXPECT_EQ(EstimateStrategy(input, WEFT_SHARD_ZERO1).backward_bytes, 0);
  EXPECT_EQ(EstimateStrategy(input, WEFT_SHARD_GRAD_OP).forward_bytes, 12 * unit);
}

TEST(Estimate, SendsWhatTheTableOfCollectivesSays) {
  EstimateInput input = TwelveUnits();
  input.micro_batches = 3;
  const double once = input.param_count * 7 / 8;
  const auto all = [&](weft_shard_preset_t strategy) {
    return EstimateStrategy(input, strategy).sent.all / once;
  };
  // Each micro-batch turns round with the unit that its forward ends with, and it begins with the one that backward ended with.
  const double gathers = (2 * 12 * 3 - 3 - 2) / 12.0;
  EXPECT_DOUBLE_EQ(all(WEFT_SHARD_NO_SHARD), 2);
  EXPECT_DOUBLE_EQ(all(WEFT_SHARD_ZERO1), 2);
  EXPECT_DOUBLE_EQ(all(WEFT_SHARD_ZERO2), 2);
  // Gathered once: what stays unsharded does so until the step ends.
  EXPECT_DOUBLE_EQ(all(WEFT_SHARD_GRAD_OP), 1 + 1);
  EXPECT_DOUBLE_EQ(all(WEFT_SHARD_FULL_SHARD), gathers + 1);
  input.accumulation = WEFT_SHARD_REDUCE_EVERY;
  EXPECT_DOUBLE_EQ(all(WEFT_SHARD_NO_SHARD), 3 * 2);
  EXPECT_DOUBLE_EQ(all(WEFT_SHARD_ZERO1), 3 + 1);
  EXPECT_DOUBLE_EQ(all(WEFT_SHARD_ZERO2), 3 + 1);
  EXPECT_DOUBLE_EQ(all(WEFT_SHARD_GRAD_OP), 1 + 3);
  EXPECT_DOUBLE_EQ(all(WEFT_SHARD_FULL_SHARD), gathers + 3);
  // Forward gathers from all, but for the two units that a micro-batch begins with, backward inside, but for the three that
  // it begins with.
  EXPECT_DOUBLE_EQ(all(WEFT_SHARD_HPZ), (12 * 3 - 2) / 12.0 + 3);
  EXPECT_DOUBLE_EQ(EstimateStrategy(input, WEFT_SHARD_HPZ).sent.inside,
                   (12 * 3 - 3) / 12.0 * input.param_count * 3 / 4);
  input.accumulation = WEFT_SHARD_INNER_EVERY_OUTER_LAST;
  const SentElements hybrid = EstimateStrategy(input, WEFT_SHARD_HYBRID_SHARD).sent;
  EXPECT_DOUBLE_EQ(hybrid.inside, (gathers + 3) * input.param_count * 3 / 4);
  EXPECT_DOUBLE_EQ(hybrid.across, 2 * input.param_count / 4 / 2);
  EXPECT_EQ(hybrid.all, 0);
}

// Params travel in their type, gradients in theirs, sums of replicas in float32.
TEST(Estimate, SendsBytesOfTheirTypes) {
  for (const BytesPerElement& mix : {kFp32Mix, kFp16Mix, kBf16Mix}) {
    EstimateInput input = TwelveUnits();
    input.mix = mix;
    const double once = input.param_count * 7 / 8, p = mix.params, g = mix.gradients;
    const auto bytes = [&](weft_shard_preset_t strategy) {
      return EstimateStrategy(input, strategy).sent_bytes;
    };
    const double gathers = (2 * 12 - 1) / 12.0;
    EXPECT_DOUBLE_EQ(bytes(WEFT_SHARD_NO_SHARD), once * 2 * g);
    EXPECT_DOUBLE_EQ(bytes(WEFT_SHARD_ZERO1), once * (g + p));
    EXPECT_DOUBLE_EQ(bytes(WEFT_SHARD_ZERO2), once * (g + p));
    EXPECT_DOUBLE_EQ(bytes(WEFT_SHARD_GRAD_OP), once * (g + p));
    EXPECT_DOUBLE_EQ(bytes(WEFT_SHARD_FULL_SHARD), once * (g + gathers * p));
    const double inside = input.param_count * 3 / 4;
    EXPECT_DOUBLE_EQ(bytes(WEFT_SHARD_HPZ), once * (g + p) + inside * 11 / 12 * p);
    const double sums = std::max(g, 4.0);
    EXPECT_DOUBLE_EQ(bytes(WEFT_SHARD_HYBRID_SHARD),
                     inside * (gathers * p + sums) + 2 * input.param_count / 4 / 2 * sums);
  }
}

TEST(Estimate, HybridNeedsAGroupAsFinalizeDoes) {
  EstimateInput input = TwelveUnits();
  input.ranks = 6;
  input.shard_group = 3;
  EXPECT_FALSE(CanEstimate(input, WEFT_SHARD_HYBRID_SHARD));
  EXPECT_TRUE(CanEstimate(input, WEFT_SHARD_HPZ));
  input.shard_group = 2;
  EXPECT_TRUE(CanEstimate(input, WEFT_SHARD_HYBRID_SHARD));
}

TEST(Estimate, AnyBudgetIsTaken) {
  EstimateInput input = TwelveUnits();
  input.budget_bytes = 1e300;
  EXPECT_EQ(EstimateStrategy(input, WEFT_SHARD_FRACTION).kept_params, input.param_count);
}

TEST(Estimate, SumsOverMicroBatchesTakeTheirPlace) {
  EstimateInput input = TwelveUnits();
  input.micro_batches = 2;
  const double all = input.param_count;
  const auto gradients = [&](weft_shard_preset_t strategy) {
    return EstimateStrategy(input, strategy).rest.gradients / 4;
  };
  // Before the reduction all of them are needed: at rest, or in the pool.
  EXPECT_EQ(gradients(WEFT_SHARD_NO_SHARD), all);
  EXPECT_EQ(gradients(WEFT_SHARD_ZERO1), all);
  EXPECT_EQ(gradients(WEFT_SHARD_ZERO2), all / 8);
  EXPECT_EQ(EstimateStrategy(input, WEFT_SHARD_ZERO2).backward_bytes, 4 * all);
  // After it the sum lies beside what backward writes, or beside the reduced share.
  input.accumulation = WEFT_SHARD_REDUCE_EVERY;
  EXPECT_EQ(gradients(WEFT_SHARD_NO_SHARD), all + all);
  EXPECT_EQ(gradients(WEFT_SHARD_ZERO1), all + all / 8);
  EXPECT_EQ(gradients(WEFT_SHARD_ZERO2), all / 8 + all / 8);
}

TEST(Estimate, HybridOfOneGroupIsFullShardAndOfOneRankEachSendsAsDdp) {
  EstimateInput input = TwelveUnits();
  input.shard_group = 8;
  const Estimate full = EstimateStrategy(input, WEFT_SHARD_FULL_SHARD);
  const Estimate one_group = EstimateStrategy(input, WEFT_SHARD_HYBRID_SHARD);
  EXPECT_EQ(one_group.rest.Total(), full.rest.Total());
  EXPECT_EQ(one_group.peak_bytes, full.peak_bytes);
  EXPECT_EQ(one_group.sent_bytes, full.sent_bytes);
  input.shard_group = 1;
  EXPECT_EQ(EstimateStrategy(input, WEFT_SHARD_HYBRID_SHARD).sent_bytes,
            EstimateStrategy(input, WEFT_SHARD_NO_SHARD).sent_bytes);
}

TEST(Estimate, FractionKeepsWhatTheBudgetAllows) {
  EstimateInput input = TwelveUnits();
  const double unit = input.largest_unit;
  const Estimate full = EstimateStrategy(input, WEFT_SHARD_FULL_SHARD);
  const Estimate kept_all = EstimateStrategy(input, WEFT_SHARD_GRAD_OP);
  double kept = 0;
  for (double budget = full.peak_bytes - unit; budget <= kept_all.peak_bytes + unit;
       budget += unit) {
    input.budget_bytes = budget;
    const Estimate fraction = EstimateStrategy(input, WEFT_SHARD_FRACTION);
    EXPECT_TRUE(fraction.fits || fraction.peak_bytes == full.peak_bytes) << budget;
    EXPECT_TRUE(fraction.fits || budget < full.peak_bytes) << budget;
    EXPECT_GE(fraction.kept_params, kept) << "a larger budget keeps no less";
    EXPECT_EQ(std::fmod(fraction.kept_params, unit), 0) << "whole units only";
    if (fraction.fits) {
      const double again = input.param_count - fraction.kept_params;
      EXPECT_DOUBLE_EQ(fraction.sent.Total(), 7.0 / 8 * (2 * input.param_count + again)) << budget;
    }
    kept = fraction.kept_params;
  }
  EXPECT_EQ(kept, input.param_count);
  EXPECT_EQ(EstimateStrategy(input, WEFT_SHARD_FRACTION).peak_bytes, kept_all.peak_bytes);
}

TEST(Estimate, OfASmallModelHasItsPadding) {
  const EstimateInput input{.param_count = 100, .ranks = 4, .largest_unit = 50};
  EXPECT_EQ(EstimateStrategy(input, WEFT_SHARD_NO_SHARD).rest.params, 2 * 128 * 4);
}

TEST(Estimate, LeavesOutWhatNeedsMoreThanIsKnown) {
  EstimateInput input{.param_count = 10, .ranks = 2, .largest_unit = 5};
  EXPECT_EQ(EstimateAll(input).size(), 5);
  input.shard_group = 2;
  EXPECT_EQ(EstimateAll(input).size(), 7);
  input.budget_bytes = 1;
  EXPECT_EQ(EstimateAll(input).size(), 8);
  for (const Estimate& one : EstimateAll(input))
    EXPECT_FALSE(one.fits);
  EXPECT_EQ(ChooseEstimate(EstimateAll(input)), nullptr);
}

TEST(Estimate, ChoosesTheLeastTrafficThenTheLeastMemory) {
  EstimateInput input{.param_count = 7e9, .ranks = 4, .largest_unit = 7e9 / 32};
  const auto chosen = [&](double budget) {
    input.budget_bytes = budget;
    const std::vector<Estimate> estimates = EstimateAll(input);
    const Estimate* const one = ChooseEstimate(estimates);
    return one == nullptr ? std::string("none") : StrategyName(one->strategy);
  };
  EXPECT_EQ(chosen(200e9),
            "zero2");  // in float32 DDP, ZERO1, ZERO2 and SHARD_GRAD_OP send the same
  EXPECT_EQ(chosen(40e9), "fraction");
  EXPECT_EQ(chosen(20e9), "none");
  // Gradients are wider than params, so what replaces half of their traffic sends less.
  input.mix = kBf16Mix;
  const std::vector<Estimate> estimates = EstimateAll(input);
  EXPECT_LT(estimates[1].sent_bytes, estimates[0].sent_bytes);
}

TEST(Estimate, RefusesWhatMakesNoSense) {
  const EstimateInput good{.param_count = 100, .ranks = 4, .largest_unit = 10, .shard_group = 2};
  ASSERT_TRUE(CheckEstimateInput(good).ok());
  const auto refused = [&](auto change) {
    EstimateInput input = good;
    change(input);
    const absl::Status status = CheckEstimateInput(input);
    EXPECT_EQ(ResultOf(status), WEFT_INVALID_ARGUMENT);
    return std::string(status.message());
  };
  EXPECT_NE(refused([](auto& input) { input.param_count = 0.5; }).find("0.5 params"),
            std::string::npos);
  EXPECT_NE(refused([](auto& input) { input.param_count = std::nan(""); }).find("params"),
            std::string::npos);
  EXPECT_NE(refused([](auto& input) { input.param_count = 1e19; }).find("at most 1e+14"),
            std::string::npos);
  EXPECT_NE(refused([](auto& input) { input.mix.optimizer = 1e7; }).find("1e+07 (optimizer)"),
            std::string::npos);
  EXPECT_NE(refused([](auto& input) { input.ranks = 0; }).find("0 ranks"), std::string::npos);
  EXPECT_NE(refused([](auto& input) { input.mix.params = 0; }).find("0 (params)"),
            std::string::npos);
  EXPECT_NE(refused([](auto& input) { input.mix.main = -1; }).find("-1 (main)"), std::string::npos);
  EXPECT_NE(refused([](auto& input) { input.largest_unit = 101; }).find("largest unit of 101"),
            std::string::npos);
  EXPECT_NE(refused([](auto& input) { input.largest_unit = 0; }).find("largest unit of 0"),
            std::string::npos);
  EXPECT_NE(refused([](auto& input) { input.mix.params = 3; }).find("2, 4 or 8"),
            std::string::npos);
  EXPECT_NE(refused([](auto& input) { input.mix.gradients = 2; }).find("2 (gradients)"),
            std::string::npos);
  EXPECT_NE(refused([](auto& input) { input.ranks = 1 << 21; }).find("at most 1048576"),
            std::string::npos);
  EXPECT_NE(refused([](auto& input) {
              input.param_count = 1e9;
              input.largest_unit = 1;
            }).find("1e+09 units"),
            std::string::npos);
  EXPECT_NE(refused([](auto& input) { input.micro_batches = 5000; }).find("at most 4096"),
            std::string::npos);
  EXPECT_NE(refused([](auto& input) { input.micro_batches = 0; }).find("0 micro-batches"),
            std::string::npos);
  EXPECT_NE(refused([](auto& input) { input.shard_group = 3; }).find("groups of 3"),
            std::string::npos);
  EXPECT_NE(refused([](auto& input) { input.budget_bytes = INFINITY; }).find("budget"),
            std::string::npos);
}

}  // namespace
}  // namespace weft::estimate_test
