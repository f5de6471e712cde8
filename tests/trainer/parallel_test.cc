#include "trainer/parallel.h"

#include <cmath>
#include <exception>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/trainer/rank_threads.h"
#include "trainer/failure.h"

namespace weft::trainer::parallel_test {
namespace {

constexpr size_t kRanks = 2;

// A matrix, which decays, and a vector, which does not.
std::vector<UnitSpec> TwoParams() {
  return {{"u", {{"w", {2, 3}, 0, 1, true}, {"b", {3}, 0, 0, false}}}};
}

// Every rank loads ones (rank 0's; the others pass something else), then runs `steps`.
void WithParams(const TrainConfig& config, const std::function<void(DataParallel&)>& steps) {
  RunAsThreads(kRanks, [&](size_t rank, weft_group_t group) {
    try {
      DataParallel parallel(group, TwoParams(), config);
      const std::vector<float> values(6, rank == 0 ? 1.0f : 7.0f);
      parallel.Load(0, 0, values.data());
      parallel.Load(0, 1, rank == 0 ? values.data() : nullptr);
      steps(parallel);
    } catch (const std::exception& error) {
      ADD_FAILURE() << "rank " << rank << ": " << error.what();
    }
  });
}

// One step whose gradients are `dw` and `db` everywhere on this rank.
weft_shard_update_result_t Step(DataParallel& parallel, float dw, float db, double clip) {
  parallel.BeginStep();
  parallel.BeginMicrobatch(0, true);
  parallel.PreForward(0);
  parallel.PostForward(0);
  const UnitView<float> view = parallel.PreBackward(0);
  for (size_t i = 0; i < view[0].count; i++)
    view[0].grad[i] += dw;
  for (size_t i = 0; i < view[1].count; i++)
    view[1].grad[i] += db;
  parallel.GradReady(0, 1);
  parallel.GradReady(0, 0);
  parallel.PostBackward(0);
  parallel.EndMicrobatch();
  parallel.Finish();
  const weft_shard_update_result_t result = parallel.Update(0.1, clip, /*requests=*/0);
  parallel.EndStep();
  return result;
}

void ExpectAll(const std::vector<float>& values, double expected, double tolerance) {
  for (const float v : values)
    EXPECT_NEAR(v, expected, tolerance);
}

class ParallelTest : public ::testing::TestWithParam<weft_shard_preset_t> {
 protected:
  TrainConfig Config(double weight_decay) const {
    TrainConfig config;
    config.strategy = GetParam();
    config.weight_decay = weight_decay;
    if (config.strategy == WEFT_SHARD_FRACTION) config.memory_budget = 1 << 20;
    if (HasGroups(config.strategy)) config.shard_group = kRanks;
    return config;
  }
};

TEST_P(ParallelTest, LoadTakesTheValuesOfRankZero) {
  WithParams(Config(0), [](DataParallel& parallel) {
    EXPECT_EQ(parallel.Read(0, 0), std::vector<float>(6, 1));
    EXPECT_EQ(parallel.Read(0, 1), std::vector<float>(3, 1));
  });
}

TEST_P(ParallelTest, ReturnsTheNormOfTheAverageBeforeClipping) {
  WithParams(Config(0), [](DataParallel& parallel) {
    const float sign = parallel.rank() == 0 ? 1 : -1;  // the averages are 3 and 4
    const auto result = Step(parallel, 3 + sign, 4 - 2 * sign, 1.0);
    EXPECT_NEAR(result.grad_norm, std::sqrt(6 * 9.0 + 3 * 16.0), 1e-6);
    EXPECT_EQ(result.update_count, 1);
  });
}

TEST_P(ParallelTest, FirstStepMovesEveryElementByTheRate) {
  WithParams(Config(0), [](DataParallel& parallel) {
    Step(parallel, 3, -4, 1.0);
    ExpectAll(parallel.Read(0, 0), 0.9, 1e-6);
    ExpectAll(parallel.Read(0, 1), 1.1, 1e-6);
  });
}

TEST_P(ParallelTest, DecaysMatricesOnly) {
  WithParams(Config(0.5), [](DataParallel& parallel) {
    Step(parallel, 0, 0, 1.0);
    ExpectAll(parallel.Read(0, 0), 1 - 0.1 * 0.5, 1e-6);
    ExpectAll(parallel.Read(0, 1), 1, 0);
  });
}

TEST_P(ParallelTest, UsesTheTrainersBetas) {
  // From the second step on the betas show: m and v after gradients 1 and 2, without corrections,
  // are 0.9 * 0.1 + 0.1 * 2 and 0.95 * 0.05 + 0.05 * 4.
  const double m = (0.9 * 0.1 + 0.1 * 2) / (1 - 0.9 * 0.9);
  const double v = (0.95 * 0.05 + 0.05 * 4) / (1 - 0.95 * 0.95);
  const double expected = 1 - 0.1 - 0.1 * m / (std::sqrt(v) + 1e-8);
  WithParams(Config(0), [&](DataParallel& parallel) {
    Step(parallel, 1, 1, 0);
    Step(parallel, 2, 2, 0);
    ExpectAll(parallel.Read(0, 0), expected, 1e-6);
    ExpectAll(parallel.Read(0, 1), expected, 1e-6);
  });
}

TEST_P(ParallelTest, ClippingScalesTheGradientNotTheStepOfAdam) {
  // Gradients of 3 and 4 clipped to a tenth of their norm are gradients of 0.3 and 0.4; a second,
  // tiny gradient shows it through the size of the step.
  const double norm = std::sqrt(6 * 9.0 + 3 * 16.0);
  std::vector<float> scaled;
  WithParams(Config(0), [&](DataParallel& parallel) {
    Step(parallel, 0.3f, 0.4f, 0);
    Step(parallel, 0.01f, 0.01f, 0);
    const std::vector<float> w = parallel.Read(0, 0);
    if (parallel.rank() == 0) scaled = w;
  });
  WithParams(Config(0), [&](DataParallel& parallel) {
    Step(parallel, 3, 4, 0.1 * norm);
    Step(parallel, 0.01f, 0.01f, 0);
    ASSERT_EQ(scaled.size(), 6u);
    ExpectAll(parallel.Read(0, 0), scaled[0], 1e-6);
  });
}

TEST_P(ParallelTest, AGradientThatIsNoNumberOnOneRankSkipsTheUpdateOnAll) {
  TrainConfig config = Config(0.5);
  config.nonfinite_steps = 2;
  WithParams(config, [](DataParallel& parallel) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const auto result = Step(parallel, parallel.rank() == 1 ? nan : 1.0f, 1, 1.0);
    EXPECT_EQ(result.skipped, 1);
    ExpectAll(parallel.Read(0, 0), 1, 0);
    ExpectAll(parallel.Read(0, 1), 1, 0);
    EXPECT_EQ(Step(parallel, 1, 1, 1.0).skipped, 0);
  });
}

TEST_P(ParallelTest, ThePlanSaysWhatIsCut) {
  const weft_shard_preset_t strategy = GetParam();
  const bool cuts_grads = strategy != WEFT_SHARD_NO_SHARD && strategy != WEFT_SHARD_ZERO1;
  const bool cuts_params = cuts_grads && strategy != WEFT_SHARD_ZERO2;
  // Larger than what a cut is rounded to, so that halves are halves.
  const std::vector<UnitSpec> units = {{"u", {{"w", {64, 64}, 0, 1, true}}}};
  constexpr uint64_t kBytes = 64 * 64 * 4;
  RunAsThreads(kRanks, [&](size_t, weft_group_t group) {
    try {
      const DataParallel parallel(group, units, Config(0));
      EXPECT_EQ(parallel.plan().param_bytes, cuts_params ? kBytes / 2 : kBytes);
      EXPECT_EQ(parallel.plan().grad_bytes, cuts_grads ? kBytes / 2 : kBytes);
      EXPECT_EQ(parallel.plan().optimizer_bytes,
                strategy == WEFT_SHARD_NO_SHARD ? 2 * kBytes : kBytes);
      EXPECT_EQ(parallel.plan().gather_bytes > 0, strategy != WEFT_SHARD_NO_SHARD);
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  });
}

TEST_P(ParallelTest, FindsEqualSamplesAndReportsTheRanks) {
  TrainConfig config = Config(0);
  config.verify_every = 1;
  WithParams(config, [](DataParallel& parallel) {
    const size_t rank = parallel.rank();
    parallel.CheckSamples(&rank, sizeof rank);
    Step(parallel, 1, 1, 0);
    const RankReports report = parallel.Report();
    EXPECT_EQ(report.summary.rank_count, int(kRanks));
    ASSERT_EQ(report.ranks.size(), kRanks);
    EXPECT_EQ(report.ranks[1].step_count, 1);
    EXPECT_EQ(report.ranks[rank].param_bytes, parallel.plan().param_bytes);
    try {
      parallel.CheckSamples("same", 4);
      ADD_FAILURE() << "equal samples were not found";
    } catch (const RunFailure& error) {
      EXPECT_NE(std::string(error.what()).find("ranks 0, 1 were given the same samples"),
                std::string::npos)
          << error.what();
    }
  });
}

INSTANTIATE_TEST_SUITE_P(All, ParallelTest, ::testing::ValuesIn(AllStrategies()),
                         [](const auto& info) {
                           std::string name = weft_shard_preset_name(info.param);
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace weft::trainer::parallel_test
