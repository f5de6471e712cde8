// Param groups: mixed kinds and factors against formulas written out slowly, the same bits under every preset and for any number of
// threads; numbers that change between steps, ranks that disagree, the memory that the plan says, and what is refused.
#include <array>
#include <cmath>
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

namespace weft::param_groups_test {
namespace {

using Group = weft_shard_param_group_t;
using testing::HasSubstr;

constexpr double kRate = 0.01;
constexpr int kSteps = 5;
constexpr int kChangeStep = 3;  // before its update groups 1, 3 and 5 change

const OptimizerConfig kConfig = {.kind = WEFT_OPTIMIZER_ADAMW,
                                 .adamw = {.weight_decay = 0.1},
                                 .sgd = {.weight_decay = 0.1},
                                 .lion = {.weight_decay = 0.1},
                                 .lamb = {.weight_decay = 0.1},
                                 .lars = {.weight_decay = 0.1}};

// Groups 1 to 6; 0 is kConfig.
std::vector<Group> AddedGroups() {
  return {{.kind = WEFT_OPTIMIZER_SGD,
           .learning_rate_factor = 2,
           .weight_decay_factor = 0.5,
           .momentum = 0.9,
           .nesterov = 1},
          {.kind = WEFT_OPTIMIZER_LION, .learning_rate_factor = 0.1},
          {.kind = WEFT_OPTIMIZER_LAMB, .beta1 = 0.8},
          {.kind = WEFT_OPTIMIZER_LARS, .learning_rate_factor = 3, .trust = 0.05},
          {.weight_decay_factor = 0,
           .beta2 = 0.95,
           .epsilon = 1e-6,
           .fields = WEFT_OPTIMIZER_WEIGHT_DECAY_FACTOR},
          {.kind = WEFT_OPTIMIZER_SGD, .learning_rate_factor = 0.5}};
}

std::vector<std::pair<int, Group>> Changes() {
  return {{1, {.learning_rate_factor = 0.25, .momentum = 0.8, .fields = WEFT_OPTIMIZER_NESTEROV}},
          {3, {.kind = WEFT_OPTIMIZER_ADAMW, .epsilon = 1e-7, .fields = WEFT_OPTIMIZER_KIND}},
          {5, {.kind = WEFT_OPTIMIZER_LAMB, .learning_rate_factor = 0.5}}};
}

// Neighbours in other groups, of one type and of several, with and without weight decay; some are alone in a unit.
struct GroupedParam {
  ModelParam param;
  int group;
};

std::vector<GroupedParam> GroupedModel() {
  return {
      {{"embed", "embed.tokens", {19, 11}, WEFT_FLOAT32}, 5},
      {{"embed", "embed.positions", {5, 11}, WEFT_FLOAT32}, 0},
      {{"block", "block.norm", {11}, WEFT_FLOAT32, false, false}, 1},
      {{"block", "block.scale", {}, WEFT_FLOAT32}, 6},
      {{"block", "block.weight", {23, 29}, WEFT_BFLOAT16}, 2},
      {{"block", "block.base", {7, 3}, WEFT_FLOAT32, true}, 1},
      {{"block", "block.none", {0, 4}, WEFT_FLOAT32}, 3},
      {{"block", "block.down", {29, 23}, WEFT_BFLOAT16}, 0},
      {{"mix", "mix.a", {300}, WEFT_FLOAT32}, 1},
      {{"mix", "mix.b", {301}, WEFT_FLOAT32}, 3},
      {{"mix", "mix.c", {302}, WEFT_FLOAT32, false, false}, 3},
      {{"mix", "mix.d", {303}, WEFT_FLOAT32}, 4},
      {{"mix", "mix.e", {304}, WEFT_FLOAT32}, 6},
      {{"mix", "mix.f", {305}, WEFT_FLOAT32}, 2},
      {{"head", "head.weight", {40, 13}, WEFT_FLOAT16}, 1},
      {{"head", "head.more", {41, 13}, WEFT_FLOAT16}, 6},
      {{"head", "head.last", {42, 13}, WEFT_FLOAT16}, 3},
      {{"tail", "tail.weight", {61, 37}, WEFT_FLOAT32}, 4},
      {{"tail", "tail.bias", {701}, WEFT_FLOAT32, false, false}, 0},
  };
}

std::vector<ModelParam> Model() {
  std::vector<ModelParam> model;
  for (const GroupedParam& param : GroupedModel())
    model.push_back(param.param);
  return model;
}

struct Setting {
  weft_shard_preset_t preset = WEFT_SHARD_NO_SHARD;
  int threads = 1;
  double norm_max = 0;
  OptimizerConfig config = kConfig;
  std::vector<Group> groups = AddedGroups();
  bool grouped = true;  // else all params stay in group 0
  bool changes = true;
};

struct Outcome {
  std::vector<double> norms;
  std::vector<Elements> params;  // at the end
  bool operator==(const Outcome&) const = default;
};

absl::StatusOr<std::unique_ptr<Context>> Make(const std::shared_ptr<ProcessGroup>& group,
                                              const Setting& setting) {
  WEFT_ASSIGN_OR_RETURN(
      auto context,
      MakeContext(group, {.limits = {.bucket_bytes = 8192, .first_bucket_bytes = 2048}},
                  SizesOfAxes(setting.preset, group->size())));
  OptimizerConfig config = setting.config;
  config.threads = setting.threads;
  WEFT_RETURN_IF_ERROR(context->SetOptimizer(config));
  for (const Group& added : setting.groups)
    WEFT_RETURN_IF_ERROR(context->builder().AddGroup(added).status());
  WEFT_RETURN_IF_ERROR(Declare(*context, Model(), PlacementOf(setting.preset)));
  const std::vector<GroupedParam> model = GroupedModel();
  for (size_t p = 0; p < model.size() && setting.grouped; ++p) {
    WEFT_RETURN_IF_ERROR(context->builder().SetParamGroup(static_cast<int>(p), model[p].group));
  }
  return context;
}

absl::StatusOr<Outcome> Train(const std::shared_ptr<ProcessGroup>& group, const Setting& setting,
                              const Scenario& scenario, int rank) {
  const std::vector<ModelParam> model = Model();
  WEFT_ASSIGN_OR_RETURN(auto context, Make(group, setting));
  WEFT_ASSIGN_OR_RETURN(const weft_shard_plan_t plan, context->Finalize());
  WEFT_ASSIGN_OR_RETURN(const auto reports, context->Report());
  EXPECT_EQ(reports[static_cast<size_t>(rank)].optimizer_bytes, plan.optimizer_bytes);
  WEFT_RETURN_IF_ERROR(LoadParams(*context, model, SmallDrawnValues(model, scenario)));
  Outcome outcome;
  for (int step = 0; step < scenario.steps; ++step) {
    WEFT_RETURN_IF_ERROR(RunStep(*context, model, scenario, rank, step).status());
    if (step == kChangeStep && setting.changes) {
      for (const auto& [number, change] : Changes())
        WEFT_RETURN_IF_ERROR(context->optimizer().SetGroup(number, change));
    }
    WEFT_ASSIGN_OR_RETURN(const weft_shard_update_result_t result,
                          context->OptimizerStep(UpdateWith(kRate, setting.norm_max)));
    outcome.norms.push_back(result.grad_norm);
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

// ---- the formulas, in double, with a state in float32 ----

struct Numbers {
  weft_optimizer_kind_t kind = WEFT_OPTIMIZER_ADAMW;
  double rate = kRate, decay = 0.1;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, momentum = 0, trust = 1e-3;
  bool nesterov = false;
};

// What the groups above come to, written out by hand.
std::array<Numbers, 7> NumbersBefore() {
  return {{{},
           {.kind = WEFT_OPTIMIZER_SGD,
            .rate = 2 * kRate,
            .decay = 0.05,
            .momentum = 0.9,
            .nesterov = true},
           {.kind = WEFT_OPTIMIZER_LION, .rate = 0.1 * kRate, .beta2 = 0.99},
           {.kind = WEFT_OPTIMIZER_LAMB, .beta1 = 0.8, .epsilon = 1e-6},
           {.kind = WEFT_OPTIMIZER_LARS, .rate = 3 * kRate, .momentum = 0.9, .trust = 0.05},
           {.decay = 0, .beta2 = 0.95, .epsilon = 1e-6},
           {.kind = WEFT_OPTIMIZER_SGD, .rate = 0.5 * kRate}}};
}

std::array<Numbers, 7> NumbersAfter() {
  std::array<Numbers, 7> numbers = NumbersBefore();
  numbers[1].rate = 0.25 * kRate;
  numbers[1].momentum = 0.8;
  numbers[1].nesterov = false;
  numbers[3].kind = WEFT_OPTIMIZER_ADAMW;
  numbers[3].epsilon = 1e-7;
  numbers[5].kind = WEFT_OPTIMIZER_LAMB;
  numbers[5].rate = 0.5 * kRate;
  return numbers;
}

struct Param {
  std::vector<float> weights, first, second;
};

double NormOf(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values)
    sum += value * value;
  return std::sqrt(sum);
}

std::vector<double> DoublesOf(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

void UpdateByFormula(const Numbers& n, bool decays, int t, const std::vector<double>& gradients,
                     Param& param) {
  const double decay = decays ? n.decay : 0;
  std::vector<double> updates(gradients.size());
  for (size_t i = 0; i < gradients.size(); ++i) {
    const double w = param.weights[i], g = gradients[i];
    float& m = param.first[i];
    float& v = param.second[i];
    if (n.kind == WEFT_OPTIMIZER_ADAMW || n.kind == WEFT_OPTIMIZER_LAMB) {
      m = static_cast<float>(n.beta1 * m + (1 - n.beta1) * g);
      v = static_cast<float>(n.beta2 * v + (1 - n.beta2) * g * g);
      const double mean = m / (1 - std::pow(n.beta1, t));
      const double root = std::sqrt(v / (1 - std::pow(n.beta2, t)));
      updates[i] = mean / (root + n.epsilon) + decay * w;
    } else if (n.kind == WEFT_OPTIMIZER_SGD) {
      const double decayed = g + decay * w;
      const double momentum = n.momentum * m + decayed;
      m = static_cast<float>(momentum);
      updates[i] = n.nesterov ? decayed + n.momentum * momentum : momentum;
    } else if (n.kind == WEFT_OPTIMIZER_LION) {
      const double c = n.beta1 * m + (1 - n.beta1) * g;
      updates[i] = (c > 0 ? 1 : 0) - (c < 0 ? 1 : 0) + decay * w;
      m = static_cast<float>(n.beta2 * m + (1 - n.beta2) * g);
    }
  }
  double ratio = 1;
  const double weights = NormOf(DoublesOf(param.weights));
  if (n.kind == WEFT_OPTIMIZER_LAMB) {
    const double norm = NormOf(updates);
    if (weights != 0 && norm != 0) ratio = weights / norm;
  }
  if (n.kind == WEFT_OPTIMIZER_LARS) {
    const double norm = NormOf(gradients);
    if (weights != 0 && norm != 0) ratio = n.trust * weights / (norm + decay * weights);
    for (size_t i = 0; i < gradients.size(); ++i) {
      const double momentum =
          n.momentum * param.first[i] + n.rate * ratio * (gradients[i] + decay * param.weights[i]);
      param.first[i] = static_cast<float>(momentum);
      param.weights[i] = static_cast<float>(param.weights[i] - momentum);
    }
    return;
  }
  for (size_t i = 0; i < gradients.size(); ++i)
    param.weights[i] = static_cast<float>(param.weights[i] - n.rate * ratio * updates[i]);
}

std::vector<Param> TrainByFormula(const Scenario& scenario, double norm_max) {
  const std::vector<GroupedParam> grouped = GroupedModel();
  const std::vector<ModelParam> model = Model();
  const std::vector<Elements> values = SmallDrawnValues(model, scenario);
  std::vector<Param> params(model.size());
  for (size_t p = 0; p < model.size(); ++p) {
    for (const uint64_t bits : values[p])
      params[p].weights.push_back(static_cast<float>(DecodeFloat(model[p].dtype, bits)));
    params[p].first.resize(values[p].size());
    params[p].second.resize(values[p].size());
  }
  for (int step = 0; step < scenario.steps; ++step) {
    const std::vector<std::vector<double>> gradients =
        ClippedGradients(model, scenario, step, norm_max);
    for (size_t p = 0; p < model.size(); ++p) {
      if (model[p].frozen) continue;
      const auto group = static_cast<size_t>(grouped[p].group);
      UpdateByFormula(step < kChangeStep ? NumbersBefore()[group] : NumbersAfter()[group],
                      model[p].decays, step + 1, gradients[p], params[p]);
    }
  }
  return params;
}

// Within the roundings of five steps, from weights of at most 2, and of a param of 16 bits.
void ExpectNear(const Outcome& outcome, const std::vector<Param>& params) {
  const std::vector<ModelParam> model = Model();
  for (size_t p = 0; p < model.size(); ++p) {
    const bool wide = model[p].dtype == WEFT_FLOAT32;
    double ulp = 0x1p-20;
    if (model[p].dtype == WEFT_BFLOAT16) ulp = 0x1p-7;
    if (model[p].dtype == WEFT_FLOAT16) ulp = 0x1p-10;
    for (size_t i = 0; i < model[p].count(); ++i) {
      const double is = DecodeFloat(model[p].dtype, outcome.params[p][i]);
      const double ought = params[p].weights[i];
      ASSERT_NEAR(is, ought, ulp * std::max(std::abs(ought), wide ? 1 : 0.01))
          << model[p].name << "[" << i << "] of group " << GroupedModel()[p].group;
    }
  }
}

class ParamGroupsTest : public testing::TestWithParam<int> {};

TEST_P(ParamGroupsTest, TrainByTheirFormulasWithTheSameBitsUnderEveryPreset) {
  const Scenario scenario{.seed = 7, .ranks = GetParam(), .steps = kSteps, .missing_percent = 5};
  for (const double norm_max : {0.0, 0.5}) {
    Setting setting{.norm_max = norm_max};
    const Outcome whole = TrainAll(setting, scenario);
    ExpectNear(whole, TrainByFormula(scenario, norm_max));
    for (const weft_shard_preset_t preset : PresetsFor(GetParam())) {
      for (const int threads : {1, 3}) {
        SCOPED_TRACE(
            StrCat(PresetName(preset), ", norm_max ", norm_max, ", ", threads, " threads"));
        setting.preset = preset;
        setting.threads = threads;
        EXPECT_TRUE(TrainAll(setting, scenario) == whole);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, ParamGroupsTest, testing::Values(1, 2, 3, 4),
                         [](const auto& info) { return StrCat("On", info.param); });

// Groups with the numbers of the context change no bit, though updates go over other ranges.
TEST(ParamGroups, OfTheSameNumbersGiveTheBitsOfOneGroup) {
  for (const weft_optimizer_kind_t kind :
       {WEFT_OPTIMIZER_ADAMW, WEFT_OPTIMIZER_SGD, WEFT_OPTIMIZER_LION, WEFT_OPTIMIZER_LAMB,
        WEFT_OPTIMIZER_LARS}) {
    const Scenario scenario{.ranks = 3, .steps = 3};
    Setting setting{.norm_max = 0.5, .groups = {}, .grouped = false, .changes = false};
    setting.config.kind = kind;
    setting.config.sgd.momentum = 0.9;
    const Outcome one = TrainAll(setting, scenario);
    setting.grouped = true;
    setting.groups.resize(6);
    for (const weft_shard_preset_t preset : {WEFT_SHARD_NO_SHARD, WEFT_SHARD_FULL_SHARD}) {
      SCOPED_TRACE(StrCat(PresetName(preset), ", kind ", static_cast<int>(kind)));
      setting.preset = preset;
      EXPECT_TRUE(TrainAll(setting, scenario) == one);
    }
  }
}

TEST(ParamGroups, KeepTheStateOfTheirKindsOnly) {
  ExpectAllOk(
      RunRanks(GroupKind::kLocal, 1, [](int, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(auto context, Make(group, {}));
        constexpr size_t kMoments[] = {2, 1, 1, 2, 1, 2, 0};
        size_t floats = 0;
        for (const GroupedParam& of : GroupedModel()) {
          if (of.param.frozen) continue;
          const size_t padded = (of.param.count() + 127) / 128 * 128;
          const size_t main = of.param.dtype == WEFT_FLOAT32 ? 0 : 1;
          floats += padded * (main + kMoments[of.group]);
        }
        WEFT_ASSIGN_OR_RETURN(const weft_shard_plan_t planned, context->Plan());
        EXPECT_EQ(planned.optimizer_bytes, floats * sizeof(float));
        // A group that is changed before finalize is planned anew.
        WEFT_RETURN_IF_ERROR(context->builder().SetParamGroup(17, 6));
        WEFT_ASSIGN_OR_RETURN(const weft_shard_plan_t less, context->Plan());
        EXPECT_EQ(planned.optimizer_bytes - less.optimizer_bytes,
                  (61 * 37 + 127) / 128 * 128 * sizeof(float));
        return absl::OkStatus();
      }));
}

TEST(ParamGroups, ThatRanksDeclareOtherwiseAreNamedInFinalize) {
  const auto finalize = [](const std::function<void(int, Setting&)>& spoil) {
    const std::vector<absl::Status> statuses =
        RunRanks(GroupKind::kLocal, 3, [&](int rank, std::shared_ptr<ProcessGroup> group) {
          Setting setting;
          spoil(rank, setting);
          auto context = Make(group, setting);
          return context.ok() ? (*context)->Finalize().status() : context.status();
        });
    for (const absl::Status& status : statuses)
      EXPECT_EQ(ResultOf(status), WEFT_MISMATCH);
    return std::string(statuses[0].message());
  };
  const std::string number = finalize([](int rank, Setting& setting) {
    if (rank == 1) setting.groups[2].beta1 = 0.7;
  });
  EXPECT_THAT(number, HasSubstr("param group 3: rank 1 has kind LAMB"));
  EXPECT_THAT(number, HasSubstr("beta1 0.7"));
  const std::string param =
      finalize([](int rank, Setting& setting) { setting.grouped = rank != 2; });
  EXPECT_THAT(param, HasSubstr("parameter embed.tokens: rank 2 has shape [19, 11] float32, rank 0 "
                               "has shape [19, 11] float32 in param group 5"));
}

TEST(ParamGroups, ThatRanksChangeOtherwiseAreNamedAndUpdateNothing) {
  const std::vector<ModelParam> model = Model();
  ExpectAllOk(RunRanks(
      GroupKind::kLocal, 3, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(auto context, Make(group, {.preset = WEFT_SHARD_ZERO1}));
        WEFT_RETURN_IF_ERROR(context->Finalize().status());
        const weft_shard_update_t update = UpdateWith(kRate);
        const Scenario scenario{.ranks = 3};
        Group change{.learning_rate_factor = rank == 1 ? 0.5 : 0.25};
        WEFT_RETURN_IF_ERROR(context->optimizer().SetGroup(4, change));
        WEFT_RETURN_IF_ERROR(RunStep(*context, model, scenario, rank, 0).status());
        const absl::Status refused = context->OptimizerStep(update).status();
        EXPECT_EQ(ResultOf(refused), WEFT_MISMATCH);
        EXPECT_THAT(std::string(refused.message()),
                    HasSubstr("param group 4: rank 1 set learning_rate_factor 0.5, ranks 0, 2 set "
                              "learning_rate_factor 0.25; "));
        WEFT_RETURN_IF_ERROR(context->StepEnd());
        std::vector<float> read(61 * 37, 1);
        WEFT_RETURN_IF_ERROR(context->Read(17, read.data()));
        EXPECT_THAT(read, testing::Each(0));
        change.learning_rate_factor = 0.125;
        WEFT_RETURN_IF_ERROR(context->optimizer().SetGroup(4, change));
        WEFT_RETURN_IF_ERROR(RunStep(*context, model, scenario, rank, 1).status());
        WEFT_RETURN_IF_ERROR(context->OptimizerStep(update).status());
        return context->StepEnd();
      }));
}

TEST(ParamGroups, ChangeOnlyToWhatTheirStateIsOf) {
  ExpectAllOk(
      RunRanks(GroupKind::kLocal, 1, [](int, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(auto context, Make(group, {}));
        EXPECT_EQ(ResultOf(context->optimizer().SetGroup(1, {})), WEFT_BAD_STATE);
        WEFT_RETURN_IF_ERROR(context->Finalize().status());
        const auto refused = [&](int number, const Group& change, const char* why) {
          const absl::Status status = context->optimizer().SetGroup(number, change);
          EXPECT_EQ(ResultOf(status), WEFT_INVALID_ARGUMENT);
          EXPECT_THAT(std::string(status.message()), HasSubstr(why));
        };
        refused(1, {.fields = WEFT_OPTIMIZER_KIND}, "SGD with momentum 0.9 keeps a sum of");
        refused(1, {.fields = WEFT_OPTIMIZER_MOMENTUM}, "SGD with momentum 0 keeps no moments");
        refused(6, {.momentum = 0.5}, "SGD with momentum 0 keeps no moments");
        refused(2, {.kind = WEFT_OPTIMIZER_LARS}, "LION keeps a mean of gradients, LARS keeps");
        refused(3, {.fields = WEFT_OPTIMIZER_EPSILON}, "LAMB needs one above 0");
        refused(7, {}, "the context has 7 param groups");
        refused(-1, {}, "group is -1");
        WEFT_ASSIGN_OR_RETURN(const OptimizerGroup same, context->optimizer().Group(1));
        EXPECT_EQ(same.sgd.momentum, 0.9);
        EXPECT_EQ(ResultOf(context->builder().AddGroup({}).status()), WEFT_BAD_STATE);
        EXPECT_EQ(ResultOf(context->builder().SetParamGroup(0, 1)), WEFT_BAD_STATE);
        return absl::OkStatus();
      }));
}

TEST(ParamGroups, NeedAnOptimizerAndHaveALimit) {
  ExpectAllOk(
      RunRanks(GroupKind::kLocal, 1, [](int, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group));
        WEFT_ASSIGN_OR_RETURN(const int param, AddUnitWithParam(*context, "a", {16}));
        EXPECT_EQ(ResultOf(context->builder().AddGroup({}).status()), WEFT_BAD_STATE);
        EXPECT_EQ(ResultOf(context->builder().SetParamGroup(param, 0)), WEFT_BAD_STATE);
        EXPECT_EQ(ResultOf(context->optimizer().Group(0).status()), WEFT_BAD_STATE);
        WEFT_RETURN_IF_ERROR(context->SetOptimizer({}));
        for (int number = 1; number < WEFT_SHARD_PARAM_GROUPS_MAX; ++number) {
          WEFT_ASSIGN_OR_RETURN(const int added, context->builder().AddGroup({}));
          EXPECT_EQ(added, number);
        }
        const absl::Status full = context->builder().AddGroup({}).status();
        EXPECT_EQ(ResultOf(full), WEFT_INVALID_ARGUMENT);
        EXPECT_THAT(std::string(full.message()), HasSubstr("256 param groups already"));
        EXPECT_EQ(ResultOf(context->builder().SetParamGroup(param, 256)), WEFT_INVALID_ARGUMENT);
        return context->builder().SetParamGroup(param, 255);
      }));
}

}  // namespace
}  // namespace weft::param_groups_test
