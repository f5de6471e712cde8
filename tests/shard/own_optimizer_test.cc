// An optimizer of the caller's own (WEFT_OPTIMIZER_OWN) under weft's loss scale and clipping: an AdamW in the test is weft's, to the
// bit; alone and beside groups that weft updates, under every preset; overflows are skipped as with weft's optimizers.
#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/text.h"
#include "comm/kernels/dtype.h"
#include "comm/kernels/reduce.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shard/optimizer/optimizer_kernels.h"
#include "tests/shard/all_presets.h"
#include "tests/shard/gradient_step.h"
#include "tests/shard/param_values.h"
#include "tests/shard/ranks.h"
#include "tests/shard/small_model.h"

namespace weft::own_optimizer_test {
namespace {

constexpr double kRate = 0.01;
constexpr int kSteps = 6;
constexpr int kOverflowStep = 2;

enum class Whose { kWeft, kCallers, kMixed };

// In kMixed every second param of float32 is the caller's; those of 16 bits, which have main copies, are weft's.
std::vector<ModelParam> Model(Whose whose) {
  const weft_dtype_t half = whose == Whose::kCallers ? WEFT_FLOAT32 : WEFT_BFLOAT16;
  return {
      {"embed", "embed.tokens", {19, 11}, WEFT_FLOAT32},
      {"embed", "embed.positions", {5, 11}, WEFT_FLOAT32},
      {"block", "block.norm", {11}, WEFT_FLOAT32},
      {"block", "block.weight", {23, 29}, half},
      {"block", "block.base", {7, 3}, WEFT_FLOAT32, true},
      {"block", "block.none", {0, 4}, WEFT_FLOAT32},
      {"mix", "mix.a", {300}, WEFT_FLOAT32},
      {"mix", "mix.b", {301}, WEFT_FLOAT32},
      {"mix", "mix.c", {302}, WEFT_FLOAT32},
      {"tail", "tail.weight", {61, 37}, half},
      {"tail", "tail.bias", {701}, WEFT_FLOAT32},
  };
}

struct Setting {
  weft_shard_preset_t preset = WEFT_SHARD_NO_SHARD;
  Whose whose = Whose::kWeft;
  Whose model = Whose::kCallers;
  double static_scale = 1024;
  bool dynamic = false;
  double norm_max = 0;
};

struct Outcome {
  std::vector<double> norms, scales;
  std::vector<int> skipped;
  std::vector<int64_t> counts;
  std::vector<Elements> params;
  bool operator==(const Outcome&) const = default;
};

bool IsCallers(const Setting& setting, size_t param) {
  if (setting.whose == Whose::kCallers) return true;
  return setting.whose == Whose::kMixed && param % 2 == 0 &&
         Model(setting.model)[param].dtype == WEFT_FLOAT32;
}

// The caller's AdamW: moments of whole params, of which each rank uses the elements of its part.
class OwnAdamW {
 public:
  explicit OwnAdamW(const std::vector<ModelParam>& model) {
    for (const ModelParam& param : model) {
      first_.emplace_back(param.count());
      second_.emplace_back(param.count());
    }
  }

  absl::Status Update(Context& context, size_t param, int64_t step) {
    WEFT_ASSIGN_OR_RETURN(const auto own, context.OwnPart(static_cast<int>(param)));
    const auto& [part, begin] = own;
    if (part.count == 0 || part.grad == nullptr) return absl::OkStatus();
    AdamWOptions options{.learning_rate = kRate};
    options.weight_decay = 0.1;
    UpdateAdamW(Isa::kScalar, MakeAdamWStep(options, step, 1),
                {.weights = static_cast<float*>(part.data),
                 .first_moment = first_[param].data() + begin,
                 .second_moment = second_[param].data() + begin,
                 .gradients = part.grad,
                 .gradient_dtype = part.grad_dtype,
                 .count = part.count});
    return absl::OkStatus();
  }

 private:
  std::vector<std::vector<float>> first_, second_;
};

absl::StatusOr<std::unique_ptr<Context>> Make(const std::shared_ptr<ProcessGroup>& group,
                                              const Setting& setting) {
  WEFT_ASSIGN_OR_RETURN(
      auto context,
      MakeContext(group, {.limits = {.bucket_bytes = 4096, .first_bucket_bytes = 2048}},
                  SizesOfAxes(setting.preset, group->size())));
  OptimizerConfig config{.dynamic_scale = setting.dynamic, .static_scale = setting.static_scale};
  config.scale = {.initial = 1024, .growth_steps = 2, .hysteresis = 1};
  config.nonfinite = WEFT_NONFINITE_SKIP;
  config.adamw.weight_decay = 0.1;
  if (setting.whose == Whose::kCallers) config.kind = WEFT_OPTIMIZER_OWN;
  WEFT_RETURN_IF_ERROR(context->SetOptimizer(config));
  WEFT_RETURN_IF_ERROR(context->builder().AddGroup({.kind = WEFT_OPTIMIZER_OWN}).status());
  const std::vector<ModelParam> model = Model(setting.model);
  WEFT_RETURN_IF_ERROR(Declare(*context, model, PlacementOf(setting.preset)));
  for (size_t p = 0; p < model.size() && setting.whose == Whose::kMixed; ++p) {
    WEFT_RETURN_IF_ERROR(
        context->builder().SetParamGroup(static_cast<int>(p), IsCallers(setting, p) ? 1 : 0));
  }
  return context;
}

absl::StatusOr<Outcome> Train(const std::shared_ptr<ProcessGroup>& group, const Setting& setting,
                              const Scenario& scenario, int rank) {
  const std::vector<ModelParam> model = Model(setting.model);
  WEFT_ASSIGN_OR_RETURN(auto context, Make(group, setting));
  WEFT_ASSIGN_OR_RETURN(const weft_shard_plan_t plan, context->Finalize());
  EXPECT_EQ(plan.optimizer_bytes == 0, setting.whose == Whose::kCallers);
  OwnAdamW own(model);
  Outcome outcome;
  for (int step = 0; step < scenario.steps; ++step) {
    Scenario poisoned = scenario;
    if (setting.dynamic && step == kOverflowStep && rank == 0) {
      poisoned.in_use = InfiniteGradient(*context);
    }
    WEFT_RETURN_IF_ERROR(RunStep(*context, model, poisoned, rank, step).status());
    WEFT_ASSIGN_OR_RETURN(const weft_shard_update_result_t result,
                          context->OptimizerStep(UpdateWith(kRate, setting.norm_max)));
    outcome.norms.push_back(std::isfinite(result.grad_norm) ? result.grad_norm : -1);
    outcome.scales.push_back(result.loss_scale);
    outcome.skipped.push_back(result.skipped);
    outcome.counts.push_back(result.update_count);
    if (setting.whose != Whose::kWeft && result.skipped == 0) {
      EXPECT_EQ(ResultOf(context->StepEnd()), WEFT_BAD_STATE) << "before params_updated";
      for (size_t p = 0; p < model.size(); ++p) {
        if (!IsCallers(setting, p)) continue;
        WEFT_RETURN_IF_ERROR(own.Update(*context, p, result.update_count));
      }
    }
    // Also where nothing is to be said: after a skipped step the main copies of weft's params must stay.
    if (setting.whose != Whose::kWeft) WEFT_RETURN_IF_ERROR(context->Updated());
    WEFT_RETURN_IF_ERROR(context->StepEnd());
  }
  WEFT_RETURN_IF_ERROR(context->Verify());
  WEFT_ASSIGN_OR_RETURN(outcome.params, ReadParams(*context, model));
  return outcome;
}

Outcome TrainAll(const Setting& setting, const Scenario& scenario) {
  return SameOnAllRanks<Outcome>(GroupKind::kLocal, scenario.ranks,
                                 [&](int rank, std::shared_ptr<ProcessGroup> group) {
                                   return Train(group, setting, scenario, rank);
                                 });
}

class OwnOptimizerTest : public testing::TestWithParam<int> {};

// The factor is a power of two, so that multiplying the gradients rounds nothing.
TEST_P(OwnOptimizerTest, WithWeftsAdamWIsWeftsAdamWToTheBit) {
  const Scenario scenario{.seed = 3, .ranks = GetParam(), .steps = kSteps, .missing_percent = 5};
  for (const bool dynamic : {false, true}) {
    for (const Whose whose : {Whose::kCallers, Whose::kMixed}) {
      Setting setting{.model = whose, .dynamic = dynamic};
      const Outcome wefts = TrainAll(setting, scenario);
      EXPECT_EQ(wefts.skipped[kOverflowStep], dynamic ? 1 : 0);
      EXPECT_EQ(wefts.counts.back(), dynamic ? kSteps - 1 : kSteps);
      if (dynamic) {
        EXPECT_THAT(wefts.scales, testing::ElementsAre(1024, 2048, 1024, 1024, 2048, 2048));
      }
      setting.whose = whose;
      for (const weft_shard_preset_t preset : PresetsFor(GetParam())) {
        SCOPED_TRACE(StrCat(PresetName(preset), whose == Whose::kMixed ? ", mixed" : "",
                            dynamic ? ", dynamic scale" : ""));
        setting.preset = preset;
        EXPECT_TRUE(TrainAll(setting, scenario) == wefts);
      }
    }
  }
}

// Clipped gradients are rounded to float32 once more than inside of weft's AdamW: 2^-24 of each, which five steps of 1% cannot
// make more than a few ulp of the weights, and the same bits under every preset.
TEST_P(OwnOptimizerTest, IsClipped) {
  const Scenario scenario{.seed = 4, .ranks = GetParam(), .steps = 3};
  Setting setting{.static_scale = 1, .norm_max = 0.5};
  const Outcome wefts = TrainAll(setting, scenario);
  setting.whose = Whose::kCallers;
  const Outcome callers = TrainAll(setting, scenario);
  EXPECT_EQ(callers.norms, wefts.norms);
  EXPECT_GT(*std::min_element(wefts.norms.begin(), wefts.norms.end()), 0.5);
  for (size_t p = 0; p < wefts.params.size(); ++p) {
    for (size_t i = 0; i < wefts.params[p].size(); ++i) {
      const double is = DecodeFloat(WEFT_FLOAT32, callers.params[p][i]);
      ASSERT_NEAR(is, DecodeFloat(WEFT_FLOAT32, wefts.params[p][i]), 1e-6);
    }
  }
  for (const weft_shard_preset_t preset : PresetsFor(GetParam())) {
    SCOPED_TRACE(PresetName(preset));
    setting.preset = preset;
    EXPECT_TRUE(TrainAll(setting, scenario) == callers);
  }
}

INSTANTIATE_TEST_SUITE_P(, OwnOptimizerTest, testing::Values(1, 2, 3, 4),
                         [](const auto& info) { return StrCat("On", info.param); });

TEST(OwnOptimizer, UpdatesFloat64Too) {
  ExpectAllOk(RunRanks(
      GroupKind::kLocal, 2, [](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group));
        WEFT_RETURN_IF_ERROR(context->SetOptimizer({.static_scale = 4}));
        WEFT_RETURN_IF_ERROR(context->builder().AddGroup({.kind = WEFT_OPTIMIZER_OWN}).status());
        const std::vector<ModelParam> model = {{"a", "a.weight", {300}, WEFT_FLOAT64}};
        WEFT_RETURN_IF_ERROR(Declare(*context, model, PlacementOf(WEFT_SHARD_ZERO2)));
        EXPECT_EQ(ResultOf(context->Plan().status()), WEFT_UNSUPPORTED) << "weft's AdamW";
        WEFT_RETURN_IF_ERROR(context->builder().SetParamGroup(0, 1));
        WEFT_RETURN_IF_ERROR(context->Finalize().status());
        const Scenario scenario{.ranks = 2};
        WEFT_RETURN_IF_ERROR(RunStep(*context, model, scenario, rank, 0).status());
        WEFT_RETURN_IF_ERROR(
            context->OptimizerStep({.struct_size = sizeof(weft_shard_update_t)}).status());
        WEFT_ASSIGN_OR_RETURN(const auto own, context->OwnPart(0));
        const auto& [part, begin] = own;
        const Elements expected = ExpectedGradients(model, scenario, 0)[0];
        for (size_t i = 0; i < part.count; ++i) {
          EXPECT_EQ(static_cast<const double*>(part.grad)[i],
                    std::bit_cast<double>(expected[begin + i]) / 4);
        }
        WEFT_RETURN_IF_ERROR(context->Updated());
        return context->StepEnd();
      }));
}

// Every instruction set, type and count has the bits of the plainest.
TEST(OwnOptimizer, GradientsAreMultipliedAlikeOnEveryInstructionSet) {
  for (const weft_dtype_t dtype : {WEFT_FLOAT32, WEFT_FLOAT64, WEFT_BFLOAT16, WEFT_FLOAT16}) {
    for (const size_t count : {size_t{0}, size_t{1}, size_t{7}, size_t{8}, size_t{129}}) {
      const bool wide = dtype == WEFT_FLOAT64;
      std::vector<double> numbers;
      Elements values;
      for (size_t i = 0; i < count; ++i) {
        const float number =
            std::ldexp(static_cast<float>(Mix(i) % 4001) - 2000, static_cast<int>(i % 9) - 16);
        values.push_back(wide ? std::bit_cast<uint64_t>(static_cast<double>(number))
                              : EncodeFloat(dtype, number));
        numbers.push_back(wide ? number : DecodeFloat(dtype, values.back()));
      }
      std::vector<char> before(count * DtypeSize(dtype));
      WriteElements(dtype, values, before.data());
      const auto scaled = [&](Isa isa, double factor) {
        std::vector<char> memory = before;
        ScaleGradients(isa, factor, dtype, memory.data(), count);
        return memory;
      };
      EXPECT_EQ(scaled(Isa::kScalar, 1), before);
      const std::vector<char> plain = scaled(Isa::kScalar, 0.3);
      const Elements read = ReadElements(dtype, plain.data(), count);
      for (size_t i = 0; i < count; ++i) {
        const double exact = numbers[i] * 0.3;
        const uint64_t ought =
            wide ? std::bit_cast<uint64_t>(exact) : EncodeFloat(dtype, static_cast<float>(exact));
        EXPECT_EQ(read[i], ought) << i;
      }
      EXPECT_EQ(scaled(BestIsa(), 0.3), plain);
    }
  }
}

}  // namespace
}  // namespace weft::own_optimizer_test
