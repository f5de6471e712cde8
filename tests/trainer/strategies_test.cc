// Every strategy trains the same transformer to the same bits, and as one process would without
// weft.
#include <cmath>
#include <exception>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/case_sample.h"
#include "tests/trainer/rank_threads.h"
#include "tests/trainer/reference_step.h"
#include "tests/trainer/training_run.h"
#include "trainer/parallel.h"
#include "trainer/strategy.h"
#include "trainer/train.h"

namespace weft::trainer {
namespace {

#ifdef WEFT_SANITIZE
constexpr size_t kSteps = 4;
const std::vector<size_t> kRankSet = {1, 3};
const std::vector<size_t> kPrefetches = {4};
#else
constexpr size_t kSteps = 21;
const std::vector<size_t> kRankSet = {1, 2, 3, 4};
const std::vector<size_t> kPrefetches = {0, 1, 4};
#endif

// Sizes that no rank count divides, the batch too, and several buckets where parameters rest whole.
TrainConfig OddConfig(weft_shard_preset_t strategy, weft_shard_accumulation_t accumulation) {
  TrainConfig config = SmallConfig();
  config.model = {256, 13, 15, 3, 3};
  config.steps = kSteps;
  config.global_batch = 25;
  config.accumulate = 2;
  config.eval_every = 8;
  config.bucket_bytes = 16 << 10;
  config.dropout = accumulation == WEFT_SHARD_REDUCE_EVERY ? 0.1 : 0;
  config.strategy = strategy;
  config.accumulation = accumulation;
  return config;
}

weft_shard_plan_t PlanOf(size_t ranks, const TrainConfig& config) {
  weft_shard_plan_t plan = {};
  RunAsThreads(ranks, [&](size_t rank, weft_group_t group) {
    try {
      const DataParallel parallel(group, ModelUnits(config.model), config);
      if (rank == 0) plan = parallel.plan();
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  });
  return plan;
}

// In the middle between what keeping no block and keeping every block takes: some are kept.
void ChooseBudget(size_t ranks, TrainConfig& config) {
  TrainConfig other = config;
  other.prefetch = 0;
  other.strategy = WEFT_SHARD_FULL_SHARD;
  const weft_shard_plan_t least = PlanOf(ranks, other);
  other.strategy = WEFT_SHARD_GRAD_OP;
  const weft_shard_plan_t most = PlanOf(ranks, other);
  config.memory_budget = (least.pool_bytes + most.pool_bytes) / 2;
  const weft_shard_plan_t plan = PlanOf(ranks, config);
  EXPECT_LE(plan.pool_bytes, config.memory_budget);
  EXPECT_LT(plan.gather_bytes, least.gather_bytes);
}

// Only what is cut is gathered ahead of its use.
std::vector<size_t> PrefetchesOf(weft_shard_preset_t strategy) {
  const bool whole = strategy == WEFT_SHARD_NO_SHARD || strategy == WEFT_SHARD_ZERO1;
  return whole ? std::vector<size_t>{1} : kPrefetches;
}

std::string Describe(const TrainConfig& config) {
  return std::string(weft_shard_preset_name(config.strategy)) +
         (config.no_overlap ? ", no overlap" : "") + ", prefetch " +
         std::to_string(config.prefetch) + ", views " + std::to_string(config.views) +
         ", recompute " + std::to_string(int(config.recompute));
}

void ExpectSameBits(const Outcome& got, const Outcome& expected) {
  ASSERT_EQ(got.error, "");
  EXPECT_EQ(got.losses, expected.losses);
  EXPECT_EQ(got.norms, expected.norms);
  EXPECT_EQ(got.validations, expected.validations);
  EXPECT_TRUE(got.params == expected.params) << "parameters differ";
  EXPECT_EQ(got.sample, expected.sample);
}

void ExpectSameBitsOnAllRanks(size_t ranks, TrainConfig config, const Outcome& expected) {
  SCOPED_TRACE(Describe(config));
  if (config.strategy == WEFT_SHARD_FRACTION) ChooseBudget(ranks, config);
  for (const Outcome& outcome : RunRanks(ranks, config))
    ExpectSameBits(outcome, expected);
}

class StrategiesTest
    : public ::testing::TestWithParam<std::tuple<size_t, weft_shard_accumulation_t>> {
 protected:
  size_t ranks() const { return std::get<0>(GetParam()); }

  weft_shard_accumulation_t accumulation() const { return std::get<1>(GetParam()); }

  // So that every strategy is taken with some number of ranks.
  uint64_t seed() const { return 2 * ranks() + static_cast<uint64_t>(accumulation()); }
};

TEST_P(StrategiesTest, AllGiveTheSameBitsWhateverIsOverlappedOrPrefetched) {
  const Outcome expected = RunRanks(ranks(), OddConfig(WEFT_SHARD_NO_SHARD, accumulation()))[0];
  ASSERT_EQ(expected.error, "");
  ASSERT_EQ(expected.losses.size(), kSteps);
  const test::CaseSample sample({.every = 5, .sanitized = 1}, seed());
  size_t number = 0;
  for (const weft_shard_preset_t strategy : AllStrategies()) {
    for (const bool no_overlap : {false, true}) {
      for (const size_t prefetch : PrefetchesOf(strategy)) {
        if (!sample.Takes(number++)) continue;
        TrainConfig config = OddConfig(strategy, accumulation());
        config.no_overlap = no_overlap;
        config.prefetch = prefetch;
        config.recompute = Recompute(number / 3 % 3);
        config.views = static_cast<weft_shard_views_t>(number % 3);
        ExpectSameBitsOnAllRanks(ranks(), config, expected);
        if (HasFailure()) return;
      }
    }
  }
  sample.Print("strategies", number);
}

TEST_P(StrategiesTest, AllGiveTheSameBitsWithGradientsReducedIn16Bits) {
  const test::CaseSample sample({.every = 3, .sanitized = 1}, seed());
  size_t number = 0;
  for (const weft_shard_wire_t type : {WEFT_SHARD_WIRE_BFLOAT16, WEFT_SHARD_WIRE_FLOAT16}) {
    TrainConfig config = OddConfig(WEFT_SHARD_NO_SHARD, accumulation());
    const Outcome unrounded = RunRanks(ranks(), config)[0];
    config.reduce_type = type;
    const Outcome expected = RunRanks(ranks(), config)[0];
    ASSERT_EQ(expected.error, "");
    EXPECT_NE(expected.losses, unrounded.losses);
    EXPECT_NEAR(expected.losses.back(), unrounded.losses.back(), 0.05);
    for (const weft_shard_preset_t strategy : AllStrategies()) {
      if (!sample.Takes(number++)) continue;
      config.strategy = strategy;
      config.no_overlap = type == WEFT_SHARD_WIRE_FLOAT16;
      ExpectSameBitsOnAllRanks(ranks(), config, expected);
      if (HasFailure()) return;
    }
  }
  sample.Print("strategies and 16-bit types", number);
}

TEST_P(StrategiesTest, AllGiveTheSameBitsWithWeightsOf16Bits) {
  const test::CaseSample sample({.every = 3, .sanitized = 1}, seed());
  size_t number = 0;
  for (const NumberType type : {NumberType::kBf16, NumberType::kFp16}) {
    TrainConfig config = OddConfig(WEFT_SHARD_NO_SHARD, accumulation());
    const Outcome unrounded = RunRanks(ranks(), config)[0];
    config.param_type = type;
    const Outcome expected = RunRanks(ranks(), config)[0];
    ASSERT_EQ(expected.error, "");
    EXPECT_NE(expected.losses, unrounded.losses);
    EXPECT_NEAR(expected.losses.back(), unrounded.losses.back(), 0.05);
    for (const weft_shard_preset_t strategy : AllStrategies()) {
      if (!sample.Takes(number++)) continue;
      config.strategy = strategy;
      config.prefetch = number % 3;
      ExpectSameBitsOnAllRanks(ranks(), config, expected);
      if (HasFailure()) return;
    }
  }
  sample.Print("strategies and 16-bit weights", number);
}

TEST(Strategies, AHeadOfItsOwnHasTheSameBitsUnderAll) {
  constexpr size_t kRanks = 3;
  TrainConfig config = OddConfig(WEFT_SHARD_NO_SHARD, WEFT_SHARD_LOCAL_THEN_REDUCE);
  config.model.tied_head = false;
  config.model.vocabulary = 300;  // 84 rows of padding
  const Outcome expected = RunRanks(kRanks, config)[0];
  ASSERT_EQ(expected.error, "");
  EXPECT_LT(expected.losses.back(), expected.losses.front());
  const test::CaseSample sample({.every = 2, .sanitized = 4}, 5);
  size_t number = 0;
  for (const weft_shard_preset_t strategy : AllStrategies()) {
    if (!sample.Takes(number++)) continue;
    config.strategy = strategy;
    ExpectSameBitsOnAllRanks(kRanks, config, expected);
    if (HasFailure()) return;
  }
}

// Heads that share keys and values, under every strategy and recomputation, in float32 and with
// bfloat16 weights.
TEST(Strategies, ALlamaHasTheSameBitsUnderAll) {
  constexpr size_t kRanks = 3;
  const test::CaseSample sample({.every = 2, .sanitized = 4}, 7);
  size_t number = 0;
  for (const NumberType type : {NumberType::kFloat32, NumberType::kBf16}) {
    TrainConfig config = OddConfig(WEFT_SHARD_NO_SHARD, WEFT_SHARD_REDUCE_EVERY);
    config.model = {.vocabulary = 256,
                    .seq = 13,
                    .width = 20,
                    .layers = 3,
                    .heads = 10,
                    .tied_head = type == NumberType::kFloat32,
                    .architecture = Architecture::kLlama,
                    .kv_heads = 5,
                    .hidden = 27};
    config.param_type = type;
    const Outcome expected = RunRanks(kRanks, config)[0];
    ASSERT_EQ(expected.error, "");
    EXPECT_LT(expected.losses.back(), expected.losses.front());
    for (const weft_shard_preset_t strategy : AllStrategies()) {
      if (!sample.Takes(number++)) continue;
      config.strategy = strategy;
      config.recompute = Recompute(number % 3);
      config.no_overlap = number % 2 == 0;
      ExpectSameBitsOnAllRanks(kRanks, config, expected);
      if (HasFailure()) return;
    }
  }
  sample.Print("strategies of a Llama", number);
}

// The head is tied to the embedding, which the plan knows: no step has to teach it.
// Whole matrices on one rank each, and oneDNN for their products.
TEST(Strategies, MuonHasTheSameBitsUnderAll) {
  constexpr size_t kRanks = 4;
  const auto config_of = [](weft_shard_preset_t strategy) {
    TrainConfig config = OddConfig(strategy, WEFT_SHARD_LOCAL_THEN_REDUCE);
    config.optimizer = WEFT_OPTIMIZER_MUON;
    return config;
  };
  const Outcome expected = RunRanks(kRanks, config_of(WEFT_SHARD_NO_SHARD))[0];
  ASSERT_EQ(expected.error, "");
  TrainConfig other = config_of(WEFT_SHARD_NO_SHARD);
  other.optimizer = WEFT_OPTIMIZER_ADAMW;
  EXPECT_NE(expected.losses, RunRanks(kRanks, other)[0].losses);
  const test::CaseSample sample({.every = 1, .sanitized = 4}, 3);
  size_t number = 0;
  for (const weft_shard_preset_t strategy : AllStrategies()) {
    if (!sample.Takes(number++)) continue;
    TrainConfig config = config_of(strategy);
    ExpectSameBitsOnAllRanks(kRanks, config, expected);
    if (HasFailure()) return;
  }
}

// One rank's run of three steps, each followed by a validation.
void ExpectPlannedStepsAndPool(const TrainConfig& config, weft_group_t group) {
  try {
    Trainer trainer(config, TestText(), group);
    trainer.Begin();
    const DataParallel& parallel = trainer.parallel();
    const auto windows = SpreadWindows(TestCorpus().validation.size(), config.model.seq, 16);
    for (size_t step = 0; step < 3; step++) {
      trainer.Step(step);
      EXPECT_EQ(parallel.step_result().replayed, 1) << "step " << step;
      trainer.Evaluate(windows).value();
      EXPECT_EQ(parallel.step_result().pool_bytes, parallel.plan().pool_bytes);
    }
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what();
  }
}

TEST(Strategies, TheFirstStepIsThePlannedOneAndThePoolNeverGrows) {
  for (const weft_shard_preset_t strategy : AllStrategies()) {
    if (strategy == WEFT_SHARD_NO_SHARD) continue;  // gathers nothing
    for (const weft_shard_accumulation_t accumulation :
         {WEFT_SHARD_LOCAL_THEN_REDUCE, WEFT_SHARD_REDUCE_EVERY}) {
      TrainConfig config = OddConfig(strategy, accumulation);
      SCOPED_TRACE(Describe(config));
      if (strategy == WEFT_SHARD_FRACTION) ChooseBudget(2, config);
      RunAsThreads(2,
                   [&](size_t, weft_group_t group) { ExpectPlannedStepsAndPool(config, group); });
    }
  }
}

// fp32 of torch.testing: what one step may differ by from another order of summation.
void ExpectClose(double got, double expected, const std::string& what) {
  EXPECT_NEAR(got, expected, 1e-5 + 1.3e-6 * std::abs(expected)) << what;
}

// The keys of a row of attention all move by q * bias, which softmax does not see: the gradient of
// a key bias is nothing but rounding, and AdamW makes steps of the rate from it.
bool IsKeyBias(const ParamSpec& spec, const ModelConfig& model, size_t element) {
  const size_t head_dim = model.width / model.heads;
  return spec.name.ends_with("attn.qkv.bias") && element / head_dim % 3 == 1;
}

TEST_P(StrategiesTest, EveryStepIsThatOfOneProcessWithTheSameBatch) {
  for (const weft_shard_preset_t strategy :
       {WEFT_SHARD_NO_SHARD, WEFT_SHARD_ZERO2, WEFT_SHARD_FULL_SHARD}) {
    const TrainConfig config = OddConfig(strategy, accumulation());
    SCOPED_TRACE(Describe(config));
    const Outcome outcome = RunRanks(ranks(), config, Reading::kEveryStep)[0];
    ASSERT_EQ(outcome.error, "");
    ASSERT_EQ(outcome.params.size(), kSteps + 1);
    ReferenceStep reference(config);
    std::vector<ParamSpec> specs;
    for (const UnitSpec& unit : ModelUnits(config.model))
      specs.insert(specs.end(), unit.params.begin(), unit.params.end());
    for (size_t step = 0; step < kSteps; step++) {
      const ReferenceStep::Result expected = reference.Step(step, outcome.params[step]);
      const std::string at = "step " + std::to_string(step);
      ExpectClose(outcome.losses[step], expected.loss, at + " loss");
      ExpectClose(outcome.norms[step], expected.norm, at + " norm");
      for (size_t p = 0; p < specs.size(); p++) {
        for (size_t i = 0; i < specs[p].Count(); i++) {
          if (IsKeyBias(specs[p], config.model, i)) continue;
          ExpectClose(outcome.params[step + 1][p][i], expected.params[p][i],
                      at + " " + specs[p].name + "[" + std::to_string(i) + "]");
        }
      }
      if (HasFailure()) return;
    }
  }
}

// Sums of replicas go across in the last micro-batch: other bits, the same training.
TEST(Strategies, ReplicasMayGoAcrossInTheLastMicrobatch) {
  const TrainConfig every = OddConfig(WEFT_SHARD_HYBRID_SHARD, WEFT_SHARD_REDUCE_EVERY);
  const Outcome expected = RunRanks(4, every)[0];
  TrainConfig config = OddConfig(WEFT_SHARD_HYBRID_SHARD, WEFT_SHARD_INNER_EVERY_OUTER_LAST);
  config.dropout = every.dropout;
  const Outcome first = RunRanks(4, config)[0];
  ASSERT_EQ(first.error, "");
  for (size_t step = 0; step < kSteps; step++)
    EXPECT_NEAR(first.losses[step], expected.losses[step], 1e-4) << step;
  config.no_overlap = true;
  config.prefetch = 4;
  for (const Outcome& outcome : RunRanks(4, config))
    ExpectSameBits(outcome, first);
}

INSTANTIATE_TEST_SUITE_P(
    , StrategiesTest,
    ::testing::Combine(::testing::ValuesIn(kRankSet),
                       ::testing::Values(WEFT_SHARD_LOCAL_THEN_REDUCE, WEFT_SHARD_REDUCE_EVERY)),
    [](const auto& info) {
      return std::to_string(std::get<0>(info.param)) + "Ranks" +
             (std::get<1>(info.param) == WEFT_SHARD_LOCAL_THEN_REDUCE ? "Local" : "Every");
    });

}  // namespace
}  // namespace weft::trainer
