#include "shard/plan/estimate.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <tuple>

#include "base/status.h"
#include "gtest/gtest.h"
#include "shard/layout/placement.h"

namespace weft {
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
  // They are whole numbers, not rounded ones.
  EXPECT_EQ(EstimateStrategy(input, WEFT_SHARD_ZERO1).rest.Total(), 70e9);
  EXPECT_EQ(EstimateStrategy(input, WEFT_SHARD_ZERO2).rest.Total(), 49e9);
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
      const EstimateInput input{
          .param_count = 1, .ranks = ranks, .mix = row.mix, .largest_unit = 1};
      EXPECT_DOUBLE_EQ(EstimateStrategy(input, WEFT_SHARD_NO_SHARD).rest.Total(), row.whole);
      EXPECT_DOUBLE_EQ(EstimateStrategy(input, WEFT_SHARD_ZERO1).rest.Total(),
                       row.fixed + row.cut / ranks)
          << row.whole << " bytes, " << ranks << " ranks";
    }
  }
}

TEST(Estimate, CutsWhatTheTableOfPlacementsSays) {
  const EstimateInput input{.param_count = 240,
                            .ranks = 8,
                            .mix = {.params = 1, .main = 2, .gradients = 3, .optimizer = 5},
                            .largest_unit = 10,
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
    EXPECT_EQ(rest.params, 240 * row.params) << StrategyName(row.strategy);
    EXPECT_EQ(rest.main, 480 * row.optimizer) << StrategyName(row.strategy);
    EXPECT_EQ(rest.gradients, 720 * row.gradients) << StrategyName(row.strategy);
    EXPECT_EQ(rest.optimizer, 1200 * row.optimizer) << StrategyName(row.strategy);
  }
}

// A step of a model of equal units, unit by unit: what is held and what is sent.
class SimulatedStep {
 public:
  SimulatedStep(const EstimateInput& input, weft_shard_preset_t strategy, double kept)
      : input_(input),
        strategy_(strategy),
        unit_(input.largest_unit),
        units_(static_cast<int>(input.param_count / unit_)),
        kept_units_(static_cast<int>(kept / unit_)) {
    for (int batch = 0; batch < input.micro_batches; ++batch) {
      last_ = batch == input.micro_batches - 1;
      Run(/*forward=*/true);
      Run(/*forward=*/false);
    }
    if (strategy == WEFT_SHARD_ZERO1 || strategy == WEFT_SHARD_ZERO2)
      SendAll(input_.param_count, params());
  }

  double forward_bytes() const { return forward_bytes_; }

  double backward_bytes() const { return backward_bytes_; }

  double sent_elements() const { return sent_elements_; }

  double sent_bytes() const { return sent_bytes_; }

 private:
  double params() const { return input_.mix.params; }

  bool shards_params() const { return strategy_ >= WEFT_SHARD_GRAD_OP; }

  bool local() const { return input_.accumulation == WEFT_SHARD_LOCAL_THEN_REDUCE; }

  bool reduces() const { return last_ || !local(); }

  // FRACTION keeps the first units: the ones that the longest part of a step passes by.
  bool Kept(int unit) const {
    return strategy_ == WEFT_SHARD_GRAD_OP ||
           (strategy_ == WEFT_SHARD_FRACTION && unit < kept_units_);
  }

  void Send(double elements, int ranks, double bytes) {
    sent_elements_ += elements - elements / ranks;
    sent_bytes_ += (elements - elements / ranks) * bytes;
  }

  void SendAll(double elements, double bytes) { Send(elements, input_.ranks, bytes); }

  void Gather(bool forward) {
    const bool inside =
        strategy_ == WEFT_SHARD_HYBRID_SHARD || (strategy_ == WEFT_SHARD_HPZ && !forward);
    Send(unit_, inside ? input_.shard_group : input_.ranks, params());
  }

  void Reduce() {
    const double bytes = input_.mix.gradients;
    if (strategy_ == WEFT_SHARD_HYBRID_SHARD) {
      Send(unit_, input_.shard_group, bytes);
      if (!last_ && input_.accumulation != WEFT_SHARD_REDUCE_EVERY) return;
      const double share = unit_ / input_.shard_group;
      const int replicas = input_.ranks / input_.shard_group;
      Send(share, replicas, bytes < 4 ? 4 : bytes);
      Send(share, replicas, bytes < 4 ? 4 : bytes);
      return;
    }
    SendAll(unit_, bytes);
    if (strategy_ == WEFT_SHARD_NO_SHARD) SendAll(unit_, bytes);
  }

  double Held(int unit, int next) const {
    double elements = 0;
    if (strategy_ == WEFT_SHARD_HPZ) elements += input_.param_count / input_.shard_group;
    for (int i = 0; i < units_; ++i) {
      const bool kept = Kept(i) && i <= unit;
      if (kept || i == unit || i == next) elements += unit_;
    }
    return elements * params();
  }

  void Run(bool forward) {
    for (int step = 0; step < units_; ++step) {
      const int unit = forward ? step : units_ - 1 - step;
      const int next = forward ? unit + 1 : unit - 1;
      const bool pooled = !forward && (!local() || input_.micro_batches == 1);
      const double gradients = pooled ? unit_ * input_.mix.gradients : 0;
      // Those of the unit before are still being reduced when this one begins; then the next one is gathered.
      const double before = step > 0 ? gradients : 0;
      double& bytes = forward ? forward_bytes_ : backward_bytes_;
      if (shards_params()) {
        if (forward || !Kept(unit)) Gather(forward);
        bytes =
            std::max({bytes, Held(unit, unit) + gradients + before, Held(unit, next) + gradients});
      } else if (strategy_ == WEFT_SHARD_ZERO2) {
        bytes = std::max(bytes, gradients + before);
      }
      if (!forward && reduces()) Reduce();
    }
  }

  const EstimateInput& input_;
  weft_shard_preset_t strategy_;
  double unit_;
  int units_;
  int kept_units_;
  bool last_ = false;
  double forward_bytes_ = 0;
  double backward_bytes_ = 0;
  double sent_elements_ = 0;
  double sent_bytes_ = 0;
};

void ExpectAsSimulated(const EstimateInput& input, weft_shard_preset_t strategy) {
  const Estimate estimate = EstimateStrategy(input, strategy);
  const SimulatedStep step(input, strategy, estimate.kept_params);
  SCOPED_TRACE(StrategyName(strategy));
  EXPECT_DOUBLE_EQ(estimate.sent.Total(), step.sent_elements());
  EXPECT_DOUBLE_EQ(estimate.sent_bytes, step.sent_bytes());
  EXPECT_EQ(estimate.backward_bytes, step.backward_bytes());
  EXPECT_GE(estimate.forward_bytes, step.forward_bytes());
  EXPECT_EQ(estimate.peak_bytes, estimate.rest.Total() + step.backward_bytes());
}

using ModelAndAccumulation =
    std::tuple<int, int, weft_shard_accumulation_t>;  // units, micro-batches

class EstimateOf : public testing::TestWithParam<ModelAndAccumulation> {};

TEST_P(EstimateOf, IsWhatAStepUnitByUnitHoldsAndSends) {
  const auto [units, micro_batches, accumulation] = GetParam();
  EstimateInput input{.param_count = 64.0 * units,
                      .ranks = 8,
                      .largest_unit = 64,
                      .micro_batches = micro_batches,
                      .accumulation = accumulation,
                      .shard_group = 4,
                      .budget_bytes = 64.0 * units * 10};
  for (const BytesPerElement& mix : {kFp32Mix, kFp16Mix, kBf16Mix}) {
    input.mix = mix;
    for (const weft_shard_preset_t strategy : kStrategies)
      ExpectAsSimulated(input, strategy);
  }
}

INSTANTIATE_TEST_SUITE_P(Steps, EstimateOf,
                         testing::Combine(testing::Values(1, 2, 3, 12), testing::Values(1, 2, 5),
                                          testing::Values(WEFT_SHARD_LOCAL_THEN_REDUCE,
                                                          WEFT_SHARD_REDUCE_EVERY,
                                                          WEFT_SHARD_INNER_EVERY_OUTER_LAST)));

TEST(Estimate, ForwardHoldsTwoUnitsAndBackwardThree) {
  const EstimateInput input{.param_count = 1000, .ranks = 4, .largest_unit = 100, .shard_group = 2};
  for (const weft_shard_preset_t strategy : {WEFT_SHARD_FULL_SHARD, WEFT_SHARD_HYBRID_SHARD}) {
    EXPECT_EQ(EstimateStrategy(input, strategy).forward_bytes, 2 * 100 * 4);
    EXPECT_EQ(EstimateStrategy(input, strategy).backward_bytes, 3 * 100 * 4);
  }
  EXPECT_EQ(EstimateStrategy(input, WEFT_SHARD_ZERO2).backward_bytes, 2 * 100 * 4);
  EXPECT_EQ(EstimateStrategy(input, WEFT_SHARD_ZERO1).backward_bytes, 0);
}

// Psi = 100 on so many ranks that (N - 1) / N is 3 / 4.
TEST(Estimate, SendsWhatTheTableOfCollectivesSays) {
  EstimateInput input{
      .param_count = 100, .ranks = 4, .largest_unit = 10, .micro_batches = 3, .shard_group = 2};
  const auto all = [&](weft_shard_preset_t strategy) {
    return EstimateStrategy(input, strategy).sent.all / 75;
  };
  EXPECT_EQ(all(WEFT_SHARD_NO_SHARD), 2);
  EXPECT_EQ(all(WEFT_SHARD_ZERO1), 2);
  EXPECT_EQ(all(WEFT_SHARD_ZERO2), 2);
  EXPECT_EQ(all(WEFT_SHARD_GRAD_OP), 3 + 1);
  EXPECT_EQ(all(WEFT_SHARD_FULL_SHARD), 2 * 3 + 1);
  input.accumulation = WEFT_SHARD_REDUCE_EVERY;
  EXPECT_EQ(all(WEFT_SHARD_NO_SHARD), 3 * 2);
  EXPECT_EQ(all(WEFT_SHARD_ZERO1), 3 + 1);
  EXPECT_EQ(all(WEFT_SHARD_ZERO2), 3 + 1);
  EXPECT_EQ(all(WEFT_SHARD_GRAD_OP), 3 * 2);
  EXPECT_EQ(all(WEFT_SHARD_FULL_SHARD), 3 * 3);
  EXPECT_EQ(all(WEFT_SHARD_HPZ), 3 * 2);
  EXPECT_EQ(EstimateStrategy(input, WEFT_SHARD_HPZ).sent.inside, 3 * 100 / 2);
  input.accumulation = WEFT_SHARD_INNER_EVERY_OUTER_LAST;
  const SentElements hybrid = EstimateStrategy(input, WEFT_SHARD_HYBRID_SHARD).sent;
  EXPECT_EQ(hybrid.inside, 3 * 3 * 100 / 2);
  EXPECT_EQ(hybrid.across, 2 * 50 / 2);
  EXPECT_EQ(hybrid.all, 0);
}

TEST(Estimate, SumsOverMicroBatchesTakeTheirPlace) {
  EstimateInput input{.param_count = 80, .ranks = 4, .largest_unit = 8, .micro_batches = 2};
  const auto gradients = [&](weft_shard_preset_t strategy) {
    return EstimateStrategy(input, strategy).rest.gradients / 4;
  };
  // Before the reduction all of them are needed, whatever the strategy.
  for (const weft_shard_preset_t strategy :
       {WEFT_SHARD_NO_SHARD, WEFT_SHARD_ZERO1, WEFT_SHARD_ZERO2, WEFT_SHARD_FULL_SHARD})
    EXPECT_EQ(gradients(strategy), 80) << StrategyName(strategy);
  EXPECT_EQ(EstimateStrategy(input, WEFT_SHARD_ZERO2).backward_bytes, 0);
  // After it the sum lies beside what backward writes, or is the share.
  input.accumulation = WEFT_SHARD_REDUCE_EVERY;
  EXPECT_EQ(gradients(WEFT_SHARD_NO_SHARD), 80 + 80);
  EXPECT_EQ(gradients(WEFT_SHARD_ZERO1), 80 + 20);
  EXPECT_EQ(gradients(WEFT_SHARD_ZERO2), 20);
  EXPECT_EQ(gradients(WEFT_SHARD_FULL_SHARD), 20);
}

TEST(Estimate, HybridOfOneGroupIsFullShardAndOfOneRankEachSendsAsDdp) {
  EstimateInput input{.param_count = 1200, .ranks = 6, .largest_unit = 100, .shard_group = 6};
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
  EstimateInput input{.param_count = 1000, .ranks = 4, .largest_unit = 100};
  const Estimate full = EstimateStrategy(input, WEFT_SHARD_FULL_SHARD);
  const Estimate kept_all = EstimateStrategy(input, WEFT_SHARD_GRAD_OP);
  double kept = 0;
  const int last = static_cast<int>(kept_all.peak_bytes - full.peak_bytes) + 10;
  for (int above = -10; above <= last; above += 10) {
    input.budget_bytes = full.peak_bytes + above;
    const Estimate fraction = EstimateStrategy(input, WEFT_SHARD_FRACTION);
    EXPECT_EQ(fraction.fits, above >= 0) << above;
    if (fraction.fits) {
      EXPECT_LE(fraction.peak_bytes, input.budget_bytes);
    }
    EXPECT_GE(fraction.kept_params, kept) << "a larger budget keeps no less";
    EXPECT_EQ(std::fmod(fraction.kept_params, 100), 0) << "whole units only";
    EXPECT_EQ(fraction.sent.Total(), 0.75 * (3 * 1000 - fraction.kept_params));
    kept = fraction.kept_params;
  }
  EXPECT_EQ(kept, 1000);
  EXPECT_EQ(EstimateStrategy(input, WEFT_SHARD_FRACTION).peak_bytes, kept_all.peak_bytes);
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
  EXPECT_NE(refused([](auto& input) { input.param_count = 1e19; }).find("at most 1e+18"),
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
  EXPECT_NE(refused([](auto& input) { input.micro_batches = 0; }).find("0 micro-batches"),
            std::string::npos);
  EXPECT_NE(refused([](auto& input) { input.shard_group = 3; }).find("groups of 3"),
            std::string::npos);
  EXPECT_NE(refused([](auto& input) { input.budget_bytes = INFINITY; }).find("budget"),
            std::string::npos);
}

}  // namespace
}  // namespace weft
