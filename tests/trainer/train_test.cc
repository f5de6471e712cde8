#include "trainer/train.h"

#include <cmath>
#include <exception>
#include <functional>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "weft/error.h"
#include "weft/group.h"

#include "trainer/failure.h"
#include "trainer/random.h"

namespace weft::trainer {
namespace {

// Words in random order: something to learn within fifty steps.
std::string Babble(size_t bytes, uint64_t seed) {
  static const char* const kWords[] = {"template ", "typename ", "class ", "int ", "return ",
                                       "const ",    "auto ",     "{\n",    "}\n",  "; "};
  std::string text;
  for (uint64_t i = 0; text.size() < bytes; i++)
    text += kWords[BitsAt(seed, i) % 10];
  return text;
}

const Corpus& TestCorpus() {
  static const Corpus corpus = [] {
    Corpus c;
    c.train = Babble(20000, 1);
    c.validation = Babble(3000, 2);
    return c;
  }();
  return corpus;
}

TrainConfig SmallConfig() {
  TrainConfig config;
  config.model = {256, 16, 24, 2, 2};
  config.steps = 50;
  config.global_batch = 8;
  config.lr = 2e-3;
  config.warmup = 10;
  return config;
}

// What a run leaves behind on one rank.
struct Outcome {
  std::vector<double> losses;
  std::vector<std::vector<float>> params;
  double validation = 0;
  std::string sample;
  std::string error;
};

Outcome RunRank(const TrainConfig& config, weft_group_t group) {
  Outcome outcome;
  try {
    Trainer trainer(config, TestCorpus(), group);
    trainer.Begin();
    for (size_t step = 0; step < config.steps; step++) {
      outcome.losses.push_back(trainer.Step(step).loss);
    }
    const auto windows = SpreadWindows(TestCorpus().validation.size(), config.model.seq, 21);
    outcome.validation = trainer.Evaluate(windows);
    outcome.sample = trainer.Generate("return ", 20, 0.7, 40);
    for (const auto& unit : trainer.parallel().views()) {
      for (const auto& view : unit)
        outcome.params.emplace_back(view.data, view.data + view.count);
    }
  } catch (const std::exception& error) {
    outcome.error = error.what();
  }
  return outcome;
}

// Runs `ranks` threads, each with its own configuration.
std::vector<Outcome> RunRanks(size_t ranks, const std::function<TrainConfig(size_t rank)>& config) {
  weft_group_config_t group_config = {};
  group_config.struct_size = sizeof group_config;
  group_config.timeout_ns = int64_t{60} * 1000000000;
  std::vector<weft_group_t> groups(ranks);
  EXPECT_EQ(weft_group_create_local(int(ranks), &group_config, groups.data()), WEFT_SUCCESS)
      << weft_last_error();
  std::vector<Outcome> outcomes(ranks);
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < ranks; rank++) {
    threads.emplace_back([&, rank] { outcomes[rank] = RunRank(config(rank), groups[rank]); });
  }
  for (std::thread& thread : threads)
    thread.join();
  for (weft_group_t group : groups)
    weft_group_destroy(group);
  return outcomes;
}

std::vector<Outcome> RunRanks(size_t ranks, const TrainConfig& config) {
  return RunRanks(ranks, [&](size_t) { return config; });
}

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
    EXPECT_NEAR(outcomes[0].validation / one.validation, 1, 1e-4);
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
    EXPECT_EQ(outcome.validation, outcomes[0].validation);
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
  TrainConfig config = SmallConfig();
  config.lr = 9;
  config.grad_clip = 0;
  config.weight_decay = 1e6;
  for (const Outcome& outcome : RunRanks(2, config)) {
    EXPECT_NE(outcome.error.find("no longer a number"), std::string::npos) << outcome.error;
  }
}

TEST(Trainer, RanksThatDisagreeAboutTheModelAreToldSo) {
  const auto outcomes = RunRanks(2, [](size_t rank) {
    TrainConfig config = SmallConfig();
    if (rank == 1) config.model.layers = 3;
    return config;
  });
  for (const Outcome& outcome : outcomes) {
    EXPECT_NE(outcome.error.find("agreeing on the parameters"), std::string::npos) << outcome.error;
  }
}

TEST(Trainer, RefusesValidationTextShorterThanAWindow) {
  Corpus corpus = TestCorpus();
  corpus.validation.resize(16);
  weft_group_t group = nullptr;
  ASSERT_EQ(weft_group_create_local(1, nullptr, &group), WEFT_SUCCESS);
  EXPECT_THROW(Trainer(SmallConfig(), corpus, group), BadInput);
  weft_group_destroy(group);
}

}  // namespace
}  // namespace weft::trainer
