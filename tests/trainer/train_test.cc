#include "trainer/train.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "weft/group.h"

#include "tests/trainer/training_run.h"
#include "trainer/failure.h"
#include "trainer/outlier_guard.h"

namespace weft::trainer {
namespace {

TEST(Trainer, LossesOfOneTwoAndFourRanksAgreeAtEqualGlobalBatch) {
  const TrainConfig config = SmallConfig();
  const Outcome one = RunRanks(1, config)[0];
  ASSERT_EQ(one.error, "");
  ASSERT_EQ(one.losses.size(), 50u);
  EXPECT_LT(one.losses.back(), 0.8 * one.losses.front());
  for (const size_t ranks : {2, 4}) {
    const auto outcomes = RunRanks(ranks, config);
    ASSERT_EQ(outcomes[0].error, "");
    ASSERT_EQ(outcomes[0].losses.size(), 50u);
    for (size_t step = 0; step < 50; step++) {
      EXPECT_NEAR(outcomes[0].losses[step] / one.losses[step], 1, 1e-5)
          << ranks << " ranks, step " << step;
    }
    EXPECT_NEAR(outcomes[0].validations.back() / one.validations.back(), 1, 1e-4);
  }
}

// Each token counts alike, whoever has it: the mean of the ranks' means would be another loss, and
// another gradient.
TEST(Trainer, LossesAgreeWhereTheRanksDoNotDivideTheBatch) {
  for (const size_t batch : {7, 11}) {
    TrainConfig config = SmallConfig();
    config.global_batch = batch;
    const Outcome one = RunRanks(1, config)[0];
    ASSERT_EQ(one.error, "");
    for (const size_t ranks : {2, 3, 5}) {
      for (const size_t accumulate : {1, 2}) {
        if (ranks * accumulate > batch) continue;
        config.accumulate = accumulate;
        const auto outcomes = RunRanks(ranks, config);
        ASSERT_EQ(outcomes[0].error, "");
        for (size_t step = 0; step < config.steps; step++) {
          ASSERT_NEAR(outcomes[0].losses[step] / one.losses[step], 1, 1e-5)
              << batch << " sequences, " << ranks << " ranks, step " << step;
          ASSERT_NEAR(outcomes[0].norms[step] / one.norms[step], 1, 1e-4) << "step " << step;
        }
        for (const Outcome& outcome : outcomes)
          EXPECT_EQ(outcome.params, outcomes[0].params);
      }
    }
    config.accumulate = 1;
  }
}

// No time is counted twice, and little is lost: the parts of a step add up to it.
TEST(Trainer, PhasesOfAStepAddUpToIt) {
  for (const auto strategy : {WEFT_SHARD_NO_SHARD, WEFT_SHARD_FULL_SHARD}) {
    TrainConfig config = SmallConfig();
    config.steps = 20;
    config.accumulate = 2;
    config.strategy = strategy;
    for (const Outcome& outcome : RunRanks(2, config)) {
      ASSERT_EQ(outcome.error, "");
      ASSERT_EQ(outcome.records.size(), 20u);
      double sum = 0, seconds = 0;
      for (const StepRecord& record : outcome.records) {
        for (size_t i = 0; i < kPhases; i++)
          EXPECT_GE(record.phases[Phase(i)], 0) << kPhaseNames[i] << ", step " << record.step;
        EXPECT_LE(record.phases.Sum(), record.seconds * (1 + 1e-9)) << "step " << record.step;
        // weft says how long it waited; the trainer's clock has seen no less.
        EXPECT_GE(record.phases[Phase::kGather] + record.phases[Phase::kReduce],
                  0.99 * record.comm_exposed_s - 1e-6)
            << "step " << record.step;
        EXPECT_GT(record.phases[Phase::kForward], 0);
        EXPECT_GT(record.phases[Phase::kBackward], 0);
        EXPECT_GT(record.phases[Phase::kOptimizer], 0);
        EXPECT_EQ(record.phases[Phase::kCheckpoint], 0);
        sum += record.phases.Sum();
        seconds += record.seconds;
      }
      EXPECT_GE(sum, 0.5 * seconds);
    }
  }
}

// 7 sequences: the ranks have 2, 2 and 3, and each of them a mean of its own.
TEST(Trainer, TheLargestLossIsThatOfTheRankWhoseMeanIsHighest) {
  TrainConfig config = SmallConfig();
  config.global_batch = 7;
  config.steps = 5;
  const auto ranks = RunRanks(3, config);
  const Outcome alone = RunRanks(1, config)[0];
  ASSERT_EQ(ranks[0].error + alone.error, "");
  for (size_t step = 0; step < config.steps; step++) {
    size_t tokens = 0;
    for (const Outcome& rank : ranks) {
      EXPECT_EQ(rank.records[step].loss_max, ranks[0].records[step].loss_max);
      tokens += rank.records[step].rank_tokens;
    }
    EXPECT_EQ(ranks[2].records[step].rank_tokens, 3 * config.model.seq);
    EXPECT_EQ(tokens, ranks[0].records[step].tokens);
    EXPECT_GT(ranks[0].records[step].loss_max, ranks[0].records[step].loss);
    EXPECT_EQ(alone.records[step].loss_max, alone.records[step].loss);
  }
}

TEST(Trainer, AllRanksHoldTheSameBits) {
  const auto outcomes = RunRanks(3, [](size_t) {
    TrainConfig config = SmallConfig();
    config.global_batch = 6;
    config.steps = 10;
    return config;
  });
  for (const Outcome& outcome : outcomes) {
    ASSERT_EQ(outcome.error, "");
    EXPECT_EQ(outcome.losses, outcomes[0].losses);
    EXPECT_EQ(outcome.params, outcomes[0].params);
    EXPECT_EQ(outcome.validations, outcomes[0].validations);
    EXPECT_EQ(outcome.sample, outcomes[0].sample);
  }
}

TEST(Trainer, SameBitsRunAfterRunAndWithoutOverlap) {
  TrainConfig config = SmallConfig();
  config.steps = 20;
  const Outcome first = RunRanks(2, config)[0];
  const Outcome again = RunRanks(2, config)[0];
  config.no_overlap = true;
  const Outcome plain = RunRanks(2, config)[0];
  ASSERT_EQ(first.error + again.error + plain.error, "");
  EXPECT_EQ(first.losses, again.losses);
  EXPECT_EQ(first.params, again.params);
  EXPECT_EQ(first.losses, plain.losses);
  EXPECT_EQ(first.params, plain.params);
  EXPECT_EQ(first.sample, plain.sample);
}

TEST(Trainer, MicroBatchesAddUpToTheBatch) {
  TrainConfig config = SmallConfig();
  const Outcome whole = RunRanks(2, config)[0];
  config.accumulate = 4;
  const Outcome parts = RunRanks(2, config)[0];
  ASSERT_EQ(whole.error + parts.error, "");
  for (size_t step = 0; step < config.steps; step++) {
    EXPECT_NEAR(parts.losses[step] / whole.losses[step], 1, 1e-5) << step;
  }
}

TEST(Trainer, EveryOptimizerLearns) {
  for (const weft_optimizer_kind_t kind :
       {WEFT_OPTIMIZER_ADAMW, WEFT_OPTIMIZER_SGD, WEFT_OPTIMIZER_LION, WEFT_OPTIMIZER_LAMB,
        WEFT_OPTIMIZER_LARS, WEFT_OPTIMIZER_MUON}) {
    SCOPED_TRACE(NameOf(kind));
    TrainConfig config = SmallConfig();
    config.optimizer = kind;
    if (kind == WEFT_OPTIMIZER_SGD) config.lr = 0.3, config.momentum = 0.9;
    if (kind == WEFT_OPTIMIZER_LARS) config.lr = 9, config.trust = 0.01;
    if (kind == WEFT_OPTIMIZER_LAMB) config.lr = 1e-2;
    const Outcome outcome = RunRanks(2, config)[0];
    ASSERT_EQ(outcome.error, "");
    EXPECT_LT(outcome.losses.back(), 0.9 * outcome.losses.front());
  }
}

// Products of float16 round, so a scale that is a power of two changes small gradients for the
// better, and large ones overflow.
TEST(Trainer, Fp16FollowsFp32AndItsScaleFallsByOverflowsOnAllRanksAlike) {
  TrainConfig config = SmallConfig();
  const Outcome full = RunRanks(3, config)[0];
  config.precision = Precision::kFp16;
  config.param_type = NumberType::kFp16;
  config.loss_scale_power = 24;
  config.loss_scale_hysteresis = 1;
  config.loss_scale_window = 10;
  const std::vector<Outcome> ranks = RunRanks(3, config);
  const Outcome& half = ranks[0];
  ASSERT_EQ(full.error + half.error, "");
  ASSERT_TRUE(half.skipped.front());
  size_t good = 0;
  for (size_t step = 0; step + 1 < config.steps; step++) {
    good = half.skipped[step] ? 0 : good + 1;
    const double factor = half.skipped[step] ? 0.5 : good % config.loss_scale_window == 0 ? 2 : 1;
    EXPECT_EQ(half.loss_scales[step + 1], factor * half.loss_scales[step]) << step;
  }
  EXPECT_LT(half.loss_scales.back(), std::ldexp(1.0, 22));
  for (const Outcome& rank : ranks) {
    EXPECT_EQ(rank.skipped, half.skipped);
    EXPECT_EQ(rank.params, half.params);
  }
  // The steps that were skipped are missing.
  EXPECT_LT(half.losses.back(), 0.9 * half.losses.front());
  config.loss_scale_power = 10;
  const Outcome quiet = RunRanks(3, config)[0];
  ASSERT_EQ(quiet.error, "");
  for (size_t step = 0; step < config.steps; step++) {
    EXPECT_FALSE(quiet.skipped[step]);
    EXPECT_NEAR(quiet.losses[step] / full.losses[step], 1, 0.01) << step;
  }
}

// Masks go by the sequence of the step: other ranks and micro-batches leave the same out.
TEST(Trainer, DropoutIsTheSameForAnyRanksAndMicroBatches) {
  TrainConfig config = SmallConfig();
  config.steps = 12;
  const Outcome without = RunRanks(1, config)[0];
  config.dropout = 0.2;
  const Outcome one = RunRanks(1, config)[0];
  ASSERT_EQ(one.error, "");
  EXPECT_GT(std::abs(one.losses[3] - without.losses[3]), 1e-3);
  for (const size_t ranks : {1, 2, 3, 4}) {
    for (const size_t accumulate : {1, 2}) {
      TrainConfig cut = config;
      cut.accumulate = accumulate;
      cut.recompute = accumulate == 2 ? Recompute::kFull : Recompute::kSelective;
      const Outcome outcome = RunRanks(ranks, cut)[0];
      ASSERT_EQ(outcome.error, "");
      for (size_t step = 0; step < config.steps; step++)
        EXPECT_NEAR(outcome.losses[step] / one.losses[step], 1, 1e-5) << ranks << " " << step;
      EXPECT_NEAR(outcome.validations.back() / one.validations.back(), 1, 1e-4);
    }
  }
}

TEST(OutlierGuard, KnowsWhatStandsOutAfterTwentySteps) {
  StepStatistics statistics;
  for (size_t step = 0; step < 200; step++) {
    const double loss = 3 - 0.001 * double(step) + 0.05 * (step % 2 == 0 ? 1 : -1);
    const double norm = 1 + 0.1 * (step % 3 == 0 ? 1 : -0.5);
    EXPECT_FALSE(IsOutlier(statistics, 5, loss, norm)) << step;
    EXPECT_EQ(IsOutlier(statistics, 5, 10, norm), step >= 20) << step;
    EXPECT_EQ(IsOutlier(statistics, 5, loss, 10), step >= 20) << step;
    EXPECT_FALSE(IsOutlier(statistics, 5, 0, 0)) << "below is good";
    statistics = After(statistics, loss, norm);
  }
  EXPECT_NEAR(statistics.loss_mean, 2.85, 0.02);
  EXPECT_NEAR(std::sqrt(statistics.loss_variance), 0.05, 0.02);
}

// A guard that finds nothing changes no bit; one that finds everything leaves the weights as they
// were.
TEST(Trainer, TheOutlierGuardSkipsOnAllRanksAlike) {
  TrainConfig config = SmallConfig();
  const Outcome without = RunRanks(2, config)[0];
  config.outlier_z = 1000;
  const Outcome quiet = RunRanks(2, config)[0];
  ASSERT_EQ(without.error + quiet.error, "");
  EXPECT_EQ(quiet.params, without.params);
  EXPECT_EQ(quiet.norms, without.norms);
  config.outlier_z = 1;
  config.global_batch = 3;  // few sequences, whose losses differ
  config.lr = 1e-7;         // the loss does not fall
  const auto ranks = RunRanks(3, config);
  ASSERT_EQ(ranks[0].error, "");
  EXPECT_GT(std::count(ranks[0].skipped.begin(), ranks[0].skipped.end(), true), 0);
  EXPECT_EQ(std::count(ranks[0].skipped.begin(), ranks[0].skipped.begin() + 20, true), 0);
  for (const Outcome& rank : ranks) {
    EXPECT_EQ(rank.skipped, ranks[0].skipped);
    EXPECT_EQ(rank.params, ranks[0].params);
  }
}

TEST(Trainer, Bf16FollowsFp32) {
  if (!PrecisionSupported(Precision::kBf16)) GTEST_SKIP() << "oneDNN has no bf16 on this CPU";
  TrainConfig config = SmallConfig();
  const Outcome full = RunRanks(2, config)[0];
  config.precision = Precision::kBf16;
  const Outcome half = RunRanks(2, config)[0];
  ASSERT_EQ(full.error + half.error, "");
  EXPECT_NE(full.losses, half.losses);
  for (size_t step = 0; step < config.steps; step++) {
    EXPECT_NEAR(half.losses[step] / full.losses[step], 1, 2e-2) << step;
  }
}

TEST(Trainer, SampleContinuesThePrompt) {
  TrainConfig config = SmallConfig();
  config.steps = 2;
  const Outcome outcome = RunRanks(1, config)[0];
  ASSERT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.sample.size(), 27u);
  EXPECT_EQ(outcome.sample.substr(0, 7), "return ");
}

TEST(Trainer, ADivergingRunEndsOnEveryRankWithASentence) {
  for (const weft_shard_preset_t strategy :
       {WEFT_SHARD_NO_SHARD, WEFT_SHARD_ZERO2, WEFT_SHARD_FULL_SHARD}) {
    TrainConfig config = SmallConfig();
    config.strategy = strategy;
    config.lr = 9;
    config.grad_clip = 0;
    config.weight_decay = 1e6;
    for (const Outcome& outcome : RunRanks(2, config)) {
      EXPECT_NE(outcome.error.find("infinite or NaN, the first in parameter "), std::string::npos)
          << outcome.error;
    }
  }
}

TEST(Trainer, RanksThatDisagreeAreToldSo) {
  const struct {
    const char* what;
    void (*change)(TrainConfig&);
  } cases[] = {
      {"layers",
       [](TrainConfig& config) {
         config.model.layers = 3;
       }},
      {"strategy",
       [](TrainConfig& config) {
         config.strategy = WEFT_SHARD_ZERO1;
       }},
      {"accumulation",
       [](TrainConfig& config) {
         config.accumulation = WEFT_SHARD_REDUCE_EVERY;
       }},
      {"prefetch",
       [](TrainConfig& config) {
         config.prefetch = 3;
       }},
      {"budget",
       [](TrainConfig& config) {
         config.memory_budget = 1 << 20;
       }},
      {"micro-batches",
       [](TrainConfig& config) {
         config.accumulate = 2;
       }},
      {"weight decay",
       [](TrainConfig& config) {
         config.weight_decay = 0.2;
       }},
  };

  for (const auto& c : cases) {
    const auto outcomes = RunRanks(2, [&](size_t rank) {
      TrainConfig config = SmallConfig();
      config.strategy = WEFT_SHARD_FULL_SHARD;
      if (rank == 1) c.change(config);
      return config;
    });
    for (const Outcome& outcome : outcomes) {
      EXPECT_NE(outcome.error.find("agreeing on the parameters"), std::string::npos)
          << c.what << ": " << outcome.error;
    }
  }
}

TEST(Trainer, RefusesValidationTextShorterThanAWindow) {
  Corpus corpus = TestCorpus();
  corpus.validation.resize(16);
  weft_group_t group = nullptr;
  ASSERT_EQ(weft_group_create_local(1, nullptr, &group), WEFT_SUCCESS);
  EXPECT_THROW(Trainer(SmallConfig(), ByteTokens(corpus), group), BadInput);
  weft_group_destroy(group);
}

}  // namespace
}  // namespace weft::trainer
