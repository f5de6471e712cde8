// The optimizer of a context: the same norms and params, bit for bit, under every preset; skipped steps, clipping,
// weight decay by param, and what is refused.
#include <cmath>
#include <string>
#include <tuple>

#include "base/status.h"
#include "base/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/shard/gradient_step.h"
#include "tests/shard/param_values.h"
#include "tests/shard/ranks.h"
#include "tests/shard/small_model.h"
#include "tests/support/case_sample.h"

namespace weft::optimizer_presets_test {
namespace {

constexpr weft_shard_preset_t kPresets[] = {WEFT_SHARD_NO_SHARD,   WEFT_SHARD_ZERO1,
                                            WEFT_SHARD_ZERO2,      WEFT_SHARD_GRAD_OP,
                                            WEFT_SHARD_FULL_SHARD, WEFT_SHARD_FRACTION};
constexpr weft_optimizer_kind_t kKinds[] = {WEFT_OPTIMIZER_ADAMW, WEFT_OPTIMIZER_SGD,
                                            WEFT_OPTIMIZER_LION, WEFT_OPTIMIZER_LAMB,
                                            WEFT_OPTIMIZER_LARS};

// The small model, but larger, and without trainable float64.
std::vector<ModelParam> Model() {
  std::vector<ModelParam> model = SmallModel();
  for (ModelParam& param : model) {
    if (param.dtype == WEFT_FLOAT64) param.dtype = WEFT_FLOAT32;
  }
  model.push_back({"tail", "tail.weight", {61, 37}, WEFT_BFLOAT16});
  model.push_back({"tail", "tail.bias", {701}, WEFT_FLOAT32});
  for (ModelParam& param : model)
    param.decays = param.shape.size() > 1;
  return model;
}

struct Outcome {
  std::vector<double> norms;  // by step
  std::vector<int> skipped;
  std::vector<Elements> params;  // at the end
  bool operator==(const Outcome&) const = default;
};

struct Setting {
  weft_shard_preset_t preset = WEFT_SHARD_NO_SHARD;
  OptimizerConfig optimizer;
  double norm_max = 0;
  int poison_step = -1;  // rank 0 has an infinite gradient there
  std::vector<int> axes = {};
  bool float32_gradients = false;
  bool own_threads = false;  // another number on each rank
};

absl::StatusOr<Outcome> Train(const std::shared_ptr<ProcessGroup>& group, const Setting& setting,
                              const Scenario& scenario, int rank) {
  const std::vector<ModelParam> model = Model();
  WEFT_ASSIGN_OR_RETURN(
      auto context,
      MakeContext(group, {.limits = {.bucket_bytes = 8192, .first_bucket_bytes = 2048}},
                  setting.axes));
  OptimizerConfig optimizer = setting.optimizer;
  if (setting.own_threads) optimizer.threads = 1 + rank;
  WEFT_RETURN_IF_ERROR(context->SetOptimizer(optimizer));
  Placement placement = PlacementOf(setting.preset);
  placement.float32_gradients = setting.float32_gradients;
  WEFT_RETURN_IF_ERROR(Declare(*context, model, placement));
  WEFT_RETURN_IF_ERROR(context->Finalize().status());
  WEFT_RETURN_IF_ERROR(LoadParams(*context, model, DrawnValues(model, scenario)));
  Outcome outcome;
  for (int step = 0; step < scenario.steps; ++step) {
    Scenario own = scenario;
    if (step == setting.poison_step && rank == 0) own.in_use = InfiniteGradient(*context);
    WEFT_RETURN_IF_ERROR(RunStep(*context, model, own, rank, step).status());
    WEFT_ASSIGN_OR_RETURN(const weft_shard_update_result_t result,
                          context->OptimizerStep(UpdateWith(0.01, setting.norm_max)));
    outcome.norms.push_back(std::isfinite(result.grad_norm) ? result.grad_norm : -1);
    outcome.skipped.push_back(result.skipped);
    WEFT_RETURN_IF_ERROR(context->StepEnd());
  }
  WEFT_ASSIGN_OR_RETURN(outcome.params, ReadParams(*context, model));
  return outcome;
}

// What rank 0 ended with; all ranks must have ended with the same.
Outcome TrainAll(GroupKind kind, const Setting& setting, const Scenario& scenario) {
  return SameOnAllRanks<Outcome>(kind, scenario.ranks,
                                 [&](int rank, std::shared_ptr<ProcessGroup> group) {
                                   return Train(group, setting, scenario, rank);
                                 });
}

OptimizerConfig ConfigOf(weft_optimizer_kind_t kind) {
  OptimizerConfig config{.kind = kind};
  config.adamw.weight_decay = 0.1;
  config.sgd = {.momentum = 0.9, .weight_decay = 0.01, .nesterov = true};
  config.lion.weight_decay = 0.1;
  return config;
}

class OptimizerPresetsTest : public testing::TestWithParam<std::tuple<weft_optimizer_kind_t, int>> {
};

TEST_P(OptimizerPresetsTest, EveryPresetTrainsTheSameBits) {
  const auto [kind, ranks] = GetParam();
  if (kSampled && ranks != 3) GTEST_SKIP() << "sampled";
  // Every preset is taken with some optimizer and number of ranks.
  const test::CaseSample sample({.every = 3, .sanitized = 3},
                                static_cast<uint64_t>(kind) + static_cast<uint64_t>(ranks));
  size_t number = 0;
  for (const double norm_max : {0.0, 0.5}) {
    const Scenario scenario{.ranks = ranks, .steps = 6, .missing_percent = 5};
    Setting setting{.optimizer = ConfigOf(kind), .norm_max = norm_max};
    const Outcome whole = TrainAll(GroupKind::kLocal, setting, scenario);
    EXPECT_THAT(whole.skipped, testing::Each(0));
    EXPECT_THAT(whole.norms, testing::Each(testing::Gt(0)));
    for (const weft_shard_preset_t preset : kPresets) {
      if (!sample.Takes(number++)) continue;
      SCOPED_TRACE(StrCat(PresetName(preset), ", norm_max ", norm_max));
      setting.preset = preset;
      EXPECT_TRUE(TrainAll(GroupKind::kLocal, setting, scenario) == whole);
    }
  }
  sample.Print("presets and limits of the norm", number);
}

INSTANTIATE_TEST_SUITE_P(, OptimizerPresetsTest,
                         testing::Combine(testing::ValuesIn(kKinds),
                                          testing::Values(1, 2, 3, 5, 8)),
                         [](const auto& info) {
                           return StrCat("Kind", static_cast<int>(std::get<0>(info.param)), "On",
                                         std::get<1>(info.param));
                         });

TEST(OptimizerStep, ReplicasTrainTheSameBits) {
  for (const weft_optimizer_kind_t kind : kKinds) {
    for (const std::vector<int>& axes : std::vector<std::vector<int>>{{2, 2}, {3, 2}, {2, 4}}) {
      if (kSampled && axes[0] * axes[1] != 4) continue;
      const Scenario scenario{.ranks = axes[0] * axes[1], .steps = 4};
      Setting setting{.optimizer = ConfigOf(kind), .norm_max = 0.5};
      const Outcome whole = TrainAll(GroupKind::kLocal, setting, scenario);
      setting.axes = axes;
      for (const weft_shard_preset_t preset :
           {WEFT_SHARD_FULL_SHARD, WEFT_SHARD_HYBRID_SHARD, WEFT_SHARD_HPZ}) {
        SCOPED_TRACE(StrCat(PresetName(preset), " on ", axes[0], " x ", axes[1]));
        setting.preset = preset;
        EXPECT_TRUE(TrainAll(GroupKind::kLocal, setting, scenario) == whole);
      }
    }
  }
}

TEST(OptimizerStep, Float32GradientsOf16BitParamsGiveTheSameBits) {
  Setting setting{.optimizer = ConfigOf(WEFT_OPTIMIZER_ADAMW), .norm_max = 0.5};
  const Scenario scenario{.ranks = 4, .steps = 4, .microbatches = 2};
  const Outcome rounded = TrainAll(GroupKind::kLocal, setting, scenario);
  setting.float32_gradients = true;
  const Outcome whole = TrainAll(GroupKind::kLocal, setting, scenario);
  EXPECT_FALSE(whole == rounded);
  setting.axes = {2, 2};
  for (const weft_shard_preset_t preset :
       {WEFT_SHARD_ZERO1, WEFT_SHARD_ZERO2, WEFT_SHARD_FULL_SHARD, WEFT_SHARD_HYBRID_SHARD,
        WEFT_SHARD_HPZ}) {
    SCOPED_TRACE(PresetName(preset));
    setting.preset = preset;
    EXPECT_TRUE(TrainAll(GroupKind::kLocal, setting, scenario) == whole);
  }
}

// Enough elements for several threads: shard_optimizer_test; here ranks differ in how many they have.
TEST(OptimizerStep, RanksMayHaveTheirOwnNumbersOfThreads) {
  for (const weft_optimizer_kind_t kind : kKinds) {
    const Scenario scenario{.ranks = 3, .steps = 3};
    Setting setting{.optimizer = ConfigOf(kind), .norm_max = 0.5};
    const Outcome alone = TrainAll(GroupKind::kLocal, setting, scenario);
    setting.own_threads = true;
    for (const weft_shard_preset_t preset :
         {WEFT_SHARD_NO_SHARD, WEFT_SHARD_ZERO1, WEFT_SHARD_FULL_SHARD}) {
      SCOPED_TRACE(PresetName(preset));
      setting.preset = preset;
      EXPECT_TRUE(TrainAll(GroupKind::kLocal, setting, scenario) == alone);
    }
  }
}

TEST(OptimizerStep, SkipsOnEveryRankWhenOneHasAnInfiniteGradient) {
  OptimizerConfig config = ConfigOf(WEFT_OPTIMIZER_ADAMW);
  config.dynamic_scale = true;
  for (const weft_shard_preset_t preset : kPresets) {
    SCOPED_TRACE(PresetName(preset));
    const Scenario scenario{.ranks = 3, .steps = 3};
    const Outcome outcome = TrainAll(
        GroupKind::kLocal, {.preset = preset, .optimizer = config, .poison_step = 1}, scenario);
    EXPECT_THAT(outcome.skipped, testing::ElementsAre(0, 1, 0));
  }
}

TEST(OptimizerStep, NormIsThatOfTheReducedGradients) {
  const Scenario scenario{.ranks = 4, .steps = 2};
  const std::vector<ModelParam> model = Model();
  const Outcome outcome = TrainAll(
      GroupKind::kLocal,
      {.preset = WEFT_SHARD_FULL_SHARD, .optimizer = ConfigOf(WEFT_OPTIMIZER_SGD)}, scenario);
  for (int step = 0; step < scenario.steps; ++step) {
    const double norm = WholeNorm(ClippedGradients(model, scenario, step, /*norm_max=*/0));
    EXPECT_NEAR(outcome.norms[static_cast<size_t>(step)] / norm, 1, 1e-12);
  }
}

// Steps that a bfloat16 weight alone would not feel: the float32 main copy adds them up, also when a frozen buffer and
// another param are loaded in between.
TEST(OptimizerStep, LoadingOneParamLeavesTheMainCopiesOfOthers) {
  for (const weft_shard_preset_t preset : kPresets) {
    SCOPED_TRACE(PresetName(preset));
    const auto body = [&](int, std::shared_ptr<ProcessGroup> group) -> absl::Status {
      WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group));
      WEFT_RETURN_IF_ERROR(context->SetOptimizer({.kind = WEFT_OPTIMIZER_SGD}));
      constexpr int64_t kCount = 300;
      WEFT_ASSIGN_OR_RETURN(const int unit, context->BeginUnit("unit", PlacementOf(preset)));
      for (const auto& [name, frozen] :
           {std::pair("weight", false), {"other", false}, {"buffer", true}}) {
        WEFT_RETURN_IF_ERROR(context
                                 ->AddParam(unit, name, &kCount, 1, WEFT_BFLOAT16,
                                            frozen ? WEFT_SHARD_PARAM_FROZEN : 0)
                                 .status());
      }
      WEFT_RETURN_IF_ERROR(context->SealUnit(unit));
      WEFT_RETURN_IF_ERROR(context->Finalize().status());
      const std::vector<uint16_t> ones(kCount, 0x3f80);
      for (const int param : {0, 1, 2})
        WEFT_RETURN_IF_ERROR(context->Load(param, ones.data(), Context::kEveryRank));
      for (int step = 0; step < 64; ++step) {
        WEFT_RETURN_IF_ERROR(context->StepBegin(WEFT_SHARD_TRAIN, 0));
        WEFT_RETURN_IF_ERROR(context->MicrobatchBegin(0, true));
        WEFT_RETURN_IF_ERROR(context->PreForward(unit));
        WEFT_RETURN_IF_ERROR(context->PostForward(unit));
        WEFT_RETURN_IF_ERROR(context->PreBackward(unit));
        WEFT_RETURN_IF_ERROR(context->GradReady(0, ones.data()));
        WEFT_RETURN_IF_ERROR(context->PostBackward(unit));
        WEFT_RETURN_IF_ERROR(context->MicrobatchEnd());
        WEFT_RETURN_IF_ERROR(context->Finish().status());
        WEFT_RETURN_IF_ERROR(
            context->OptimizerStep({sizeof(weft_shard_update_t), 0x1p-10, 0}).status());
        WEFT_RETURN_IF_ERROR(context->StepEnd());
        for (const int param : {1, 2})
          WEFT_RETURN_IF_ERROR(context->Load(param, ones.data(), Context::kEveryRank));
      }
      std::vector<uint16_t> read(kCount);
      WEFT_RETURN_IF_ERROR(context->Read(0, read.data()));
      EXPECT_THAT(read, testing::Each(0x3f70)) << "1 - 64 / 1024";
      return context->Verify();
    };
    ExpectAllOk(RunRanks(GroupKind::kLocal, 2, body));
  }
}

TEST(OptimizerStep, IsRefusedOutOfPlace) {
  ExpectAllOk(
      RunRanks(GroupKind::kLocal, 2, [](int, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        const weft_shard_update_t update{.struct_size = sizeof(update), .learning_rate = 1};
        WEFT_ASSIGN_OR_RETURN(auto plain, MakeContext(group));
        WEFT_RETURN_IF_ERROR(AddUnitWithParam(*plain, "a", {16}).status());
        WEFT_RETURN_IF_ERROR(plain->Finalize().status());
        EXPECT_EQ(ResultOf(plain->OptimizerStep(update).status()), WEFT_BAD_STATE);

        WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group));
        WEFT_RETURN_IF_ERROR(context->SetOptimizer({}));
        EXPECT_EQ(ResultOf(context->SetOptimizer({})), WEFT_BAD_STATE);
        WEFT_RETURN_IF_ERROR(AddUnitWithParam(*context, "a", {16}).status());
        WEFT_RETURN_IF_ERROR(context->Finalize().status());
        EXPECT_EQ(ResultOf(context->OptimizerStep(update).status()), WEFT_BAD_STATE);
        WEFT_RETURN_IF_ERROR(context->StepBegin(WEFT_SHARD_TRAIN, 0));
        WEFT_RETURN_IF_ERROR(context->MicrobatchBegin(0, true));
        WEFT_RETURN_IF_ERROR(context->MicrobatchEnd());
        EXPECT_EQ(ResultOf(context->OptimizerStep(update).status()), WEFT_BAD_STATE);
        WEFT_RETURN_IF_ERROR(context->Finish().status());
        WEFT_RETURN_IF_ERROR(context->OptimizerStep(update).status());
        EXPECT_EQ(ResultOf(context->OptimizerStep(update).status()), WEFT_BAD_STATE);
        return context->StepEnd();
      }));
}

TEST(OptimizerStep, DoesNotUpdateFloat64) {
  ExpectAllOk(
      RunRanks(GroupKind::kLocal, 2, [](int, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group));
        WEFT_RETURN_IF_ERROR(context->SetOptimizer({}));
        WEFT_RETURN_IF_ERROR(AddUnitWithParam(*context, "a", {16}, WEFT_FLOAT64).status());
        const absl::Status status = context->Finalize().status();
        EXPECT_EQ(ResultOf(status), WEFT_UNSUPPORTED);
        EXPECT_THAT(
            std::string(status.message()),
            testing::MatchesRegex("finalize on rank [01]: parameter a.weight is float64.*"));
        return absl::OkStatus();
      }));
}

}  // namespace
}  // namespace weft::optimizer_presets_test
