// float16 training with a dynamic loss scale, under every preset: an overflow on one rank is an overflow on all, the scale
// follows the rule, and what is skipped leaves no trace.
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/text.h"
#include "comm/kernels/dtype.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/shard/all_presets.h"
#include "tests/shard/gradient_step.h"
#include "tests/shard/param_values.h"
#include "tests/shard/ranks.h"
#include "tests/shard/small_model.h"

namespace weft::loss_scale_presets_test {
namespace {

constexpr int kRanks = 4;
constexpr int kSteps = 40;
constexpr LossScaleOptions kScale = {.initial = 65536, .growth_steps = 4, .hysteresis = 2};

std::vector<ModelParam> Model() {
  return {
      {"embed", "embed.tokens", {19, 11}, WEFT_FLOAT16},
      {"block", "block.norm", {11}, WEFT_FLOAT32, false, false},
      {"block", "block.weight", {23, 29}, WEFT_FLOAT16},
      {"block", "block.none", {0, 3}, WEFT_FLOAT16},
      {"head", "head.weight", {40, 13}, WEFT_FLOAT16},
      {"head", "head.bias", {7}, WEFT_FLOAT16, false, false},
  };
}

// An element of a gradient that is infinite, or no number, on one rank.
struct Overflow {
  int rank = -1;  // -1: none
  size_t param = 0;
  size_t element = 0;
  float value = std::numeric_limits<float>::infinity();
};

std::vector<Overflow> MakeOverflows() {
  const std::vector<ModelParam> model = Model();
  std::mt19937 random(TestSeed());
  std::vector<Overflow> overflows(kSteps);
  for (Overflow& overflow : overflows) {
    if (random() % 4 != 0) continue;
    overflow.rank = static_cast<int>(random() % kRanks);
    do {
      overflow.param = random() % model.size();
    } while (model[overflow.param].count() == 0);
    overflow.element = random() % model[overflow.param].count();
    const unsigned kind = random() % 4;
    if (kind == 0) overflow.value = -overflow.value;
    if (kind == 1) overflow.value = std::numeric_limits<float>::quiet_NaN();
  }
  // Whatever the seed: the scale grows, then one overflow is tolerated and two halve it.
  std::fill_n(overflows.begin(), 5, Overflow());
  overflows[5] = {.rank = 2, .param = 2, .element = 3};
  overflows[6] = {.rank = 0, .param = 4, .element = 519};
  overflows[7] = {.rank = 3, .param = 1, .element = 10};
  return overflows;
}

// The scale of each step and the one after the last, by Megatron's rule as shard/optimizer/loss_scale.h states it, with the numbers
// of kScale.
std::vector<double> ScalesByTheRule(const std::vector<Overflow>& overflows) {
  std::vector<double> scales = {65536};
  int good_in_a_row = 0;
  int tolerated = 2;
  for (const Overflow& overflow : overflows) {
    double scale = scales.back();
    if (overflow.rank >= 0) {
      good_in_a_row = 0;
      tolerated = tolerated - 1;
      if (tolerated <= 0) scale = scale / 2;
    } else {
      good_in_a_row = good_in_a_row + 1;
      if (good_in_a_row == 4) {
        scale = scale * 2;
        good_in_a_row = 0;
        tolerated = 2;
      }
    }
    scales.push_back(scale);
  }
  return scales;
}

struct Outcome {
  std::vector<double> scales;  // of each step, and of the one after the last
  std::vector<double> norms;   // of the steps that were not skipped
  std::vector<int> skipped;
  std::vector<Elements> params;
  int64_t update_count = 0;
  bool operator==(const Outcome&) const = default;
};

struct Setting {
  weft_shard_preset_t preset = WEFT_SHARD_NO_SHARD;
  weft_optimizer_kind_t kind = WEFT_OPTIMIZER_ADAMW;
  bool float32_gradients = false;
  // With an unchanging scale of 65536, and only the steps that do not overflow.
  bool only_good_steps = false;
};

// Between 1/8 and 1, with few digits: times 2^-15 and any scale it is a float16 without rounding, and so is what
// several ranks add up.
float Value(int step, int rank, size_t param, size_t element) {
  const uint64_t hash =
      Mix(Mix(Mix(static_cast<uint64_t>(step * kRanks + rank)) + param) + element);
  const float magnitude = static_cast<float>(16 + hash % 112) * 0x1p-7f;
  return (hash >> 32) % 2 == 0 ? magnitude : -magnitude;
}

// What backward of loss x scale gives, of a loss whose gradients are 2^-15 x Value.
absl::Status WriteGradient(Context& context, int step, int rank, size_t param, double scale,
                           const Overflow& overflow) {
  WEFT_ASSIGN_OR_RETURN(const ParamView view, context.View(static_cast<int>(param)));
  Elements gradient(view.count);
  for (size_t i = 0; i < view.count; ++i) {
    const auto scaled = static_cast<float>(Value(step, rank, param, i) * 0x1p-15 * scale);
    const bool overflows =
        overflow.rank == rank && overflow.param == param && overflow.element == i;
    gradient[i] = EncodeFloat(view.grad_dtype, overflows ? overflow.value : scaled);
  }
  if (view.count != 0) WriteElements(view.grad_dtype, gradient, view.grad);
  return context.GradReady(static_cast<int>(param), nullptr);
}

absl::Status RunBackward(Context& context, int step, int rank, double scale,
                         const Overflow& overflow) {
  const std::vector<ModelParam> model = Model();
  const std::vector<int> units = UnitsOf(model);
  return RunGradientStep(context, model, [&](int unit) -> absl::Status {
    for (size_t p = model.size(); p > 0; --p) {
      if (units[p - 1] != unit) continue;
      WEFT_RETURN_IF_ERROR(WriteGradient(context, step, rank, p - 1, scale, overflow));
    }
    return absl::OkStatus();
  });
}

absl::Status RunStep(Context& context, int step, int rank, const Overflow& overflow,
                     Outcome& outcome) {
  WEFT_ASSIGN_OR_RETURN(const std::vector<Elements> before, ReadParams(context, Model()));
  WEFT_ASSIGN_OR_RETURN(const double scale, context.optimizer().LossScale());
  WEFT_RETURN_IF_ERROR(RunBackward(context, step, rank, scale, overflow));
  WEFT_ASSIGN_OR_RETURN(const weft_shard_update_result_t result,
                        context.OptimizerStep(UpdateWith(0.01)));
  WEFT_RETURN_IF_ERROR(context.StepEnd());
  WEFT_ASSIGN_OR_RETURN(const double next, context.optimizer().LossScale());
  EXPECT_EQ(result.loss_scale, next);
  WEFT_ASSIGN_OR_RETURN(const std::vector<Elements> after, ReadParams(context, Model()));
  EXPECT_EQ(after == before, result.skipped != 0) << "step " << step << " on rank " << rank;
  EXPECT_EQ(result.nonfinite, overflow.rank >= 0 ? 1 : 0);
  if (outcome.scales.empty()) outcome.scales.push_back(scale);
  outcome.scales.push_back(next);
  outcome.skipped.push_back(result.skipped);
  if (result.skipped == 0) outcome.norms.push_back(result.grad_norm);
  outcome.update_count = result.update_count;
  return absl::OkStatus();
}

absl::StatusOr<Outcome> Train(std::shared_ptr<ProcessGroup> group, const Setting& setting,
                              const std::vector<Overflow>& overflows, int rank) {
  WEFT_ASSIGN_OR_RETURN(
      auto context,
      MakeContext(std::move(group), {.limits = {.bucket_bytes = 1024, .first_bucket_bytes = 512}},
                  SizesOfAxes(setting.preset, kRanks)));
  OptimizerConfig config{.kind = setting.kind, .scale = kScale};
  config.sgd.momentum = 0.9;
  config.dynamic_scale = !setting.only_good_steps;
  config.static_scale = kScale.initial;
  WEFT_RETURN_IF_ERROR(context->SetOptimizer(config));
  Placement placement = PlacementOf(setting.preset);
  placement.float32_gradients = setting.float32_gradients;
  WEFT_RETURN_IF_ERROR(Declare(*context, Model(), placement));
  WEFT_RETURN_IF_ERROR(context->Finalize().status());
  Outcome outcome;
  for (int step = 0; step < kSteps; ++step) {
    const Overflow& overflow = overflows[static_cast<size_t>(step)];
    if (setting.only_good_steps && overflow.rank >= 0) continue;
    WEFT_RETURN_IF_ERROR(RunStep(*context, step, rank, overflow, outcome));
  }
  WEFT_ASSIGN_OR_RETURN(outcome.params, ReadParams(*context, Model()));
  return outcome;
}

// What all ranks ended with.
Outcome TrainAll(const Setting& setting, const std::vector<Overflow>& overflows) {
  return SameOnAllRanks<Outcome>(GroupKind::kLocal, kRanks,
                                 [&](int rank, std::shared_ptr<ProcessGroup> group) {
                                   return Train(std::move(group), setting, overflows, rank);
                                 });
}

std::vector<int> SkippedByTheRule(const std::vector<Overflow>& overflows) {
  std::vector<int> skipped;
  for (const Overflow& overflow : overflows)
    skipped.push_back(overflow.rank >= 0 ? 1 : 0);
  return skipped;
}

class LossScalePresetsTest : public testing::TestWithParam<bool> {};

// The last comparison is that of moments and of the count of updates too: they decide all later weights.
TEST_P(LossScalePresetsTest, AnOverflowOnOneRankIsSkippedByAllAndLeavesNoTrace) {
  const std::vector<Overflow> overflows = MakeOverflows();
  SCOPED_TRACE(StrCat("seed ", TestSeed()));
  const std::vector<double> scales = ScalesByTheRule(overflows);
  ASSERT_GT(*std::max_element(scales.begin(), scales.end()), 65536);
  ASSERT_LT(*std::min_element(scales.begin(), scales.end()), 65536);
  for (const weft_optimizer_kind_t kind : {WEFT_OPTIMIZER_ADAMW, WEFT_OPTIMIZER_SGD}) {
    Setting setting{.kind = kind, .float32_gradients = GetParam(), .only_good_steps = true};
    const Outcome good = TrainAll(setting, overflows);
    setting.only_good_steps = false;
    for (const weft_shard_preset_t preset : kAllPresets) {
      SCOPED_TRACE(StrCat(PresetName(preset), ", kind ", static_cast<int>(kind)));
      setting.preset = preset;
      const Outcome outcome = TrainAll(setting, overflows);
      EXPECT_EQ(outcome.scales, scales);
      EXPECT_EQ(outcome.skipped, SkippedByTheRule(overflows));
      EXPECT_EQ(outcome.norms, good.norms);
      EXPECT_EQ(outcome.update_count, good.update_count);
      EXPECT_TRUE(outcome.params == good.params);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, LossScalePresetsTest, testing::Bool(), [](const auto& info) {
  return info.param ? "Float32Gradients" : "Float16Gradients";
});

// A gradient that is finite on every rank, whose sum over ranks float16 does not hold.
TEST(LossScalePresets, AnOverflowOfTheSumIsSkippedToo) {
  for (const weft_shard_preset_t preset : {WEFT_SHARD_NO_SHARD, WEFT_SHARD_FULL_SHARD}) {
    ExpectAllOk(RunRanks(
        GroupKind::kLocal, 2, [&](int, std::shared_ptr<ProcessGroup> group) -> absl::Status {
          WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(std::move(group), {.average = false}));
          WEFT_RETURN_IF_ERROR(context->SetOptimizer({.dynamic_scale = true, .scale = kScale}));
          const std::vector<ModelParam> model = {{"a", "a.weight", {300}, WEFT_FLOAT16}};
          WEFT_RETURN_IF_ERROR(Declare(*context, model, PlacementOf(preset)));
          WEFT_RETURN_IF_ERROR(context->Finalize().status());
          const Elements large(300, EncodeFloat(WEFT_FLOAT16, 40000));
          std::vector<char> gradient = PackElements(WEFT_FLOAT16, large);
          WEFT_RETURN_IF_ERROR(RunGradientStep(
              *context, model, [&](int) { return context->GradReady(0, gradient.data()); }));
          WEFT_ASSIGN_OR_RETURN(const weft_shard_update_result_t result,
                                context->OptimizerStep(UpdateWith(0.01)));
          EXPECT_EQ(result.skipped, 1);
          EXPECT_EQ(result.nonfinite, 300);
          return context->StepEnd();
        }));
  }
}

}  // namespace
}  // namespace weft::loss_scale_presets_test
