// Params that another part of a model counts (WEFT_SHARD_PARAM_NOT_COUNTED): left out of the global
// norm and of what is not finite, to the bit, and of nothing else.
#include <cstring>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/shard/all_presets.h"
#include "tests/shard/gradient_step.h"
#include "tests/shard/param_values.h"
#include "tests/shard/ranks.h"
#include "tests/shard/small_model.h"

namespace weft::not_counted_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int kSteps = 3;

// What becomes of the params that are copies of another part's.
enum class Copies { kNotCounted, kCounted, kAbsent };

// Copies stand first, between others, last, side by side and alone in a unit; one is larger than
// what a thread takes at once, and one is empty. MUON has the matrices only.
std::vector<ModelParam> Model(Copies copies, weft_optimizer_kind_t kind = WEFT_OPTIMIZER_ADAMW) {
  std::vector<ModelParam> model = {
      {"embed", "copy.tokens", {300, 130}, WEFT_FLOAT32},
      {"embed", "embed.tokens", {61, 37}, WEFT_FLOAT32},
      {"block", "block.weight", {19, 53}, WEFT_FLOAT32},
      {"block", "copy.gain", {37}, WEFT_FLOAT32},
      {"block", "copy.scale", {}, WEFT_FLOAT32},
      {"block", "block.bias", {701}, WEFT_FLOAT32},
      {"block", "copy.half", {5, 61}, WEFT_BFLOAT16},
      {"alone", "copy.alone", {257}, WEFT_FLOAT32},
      {"head", "head.half", {33, 11}, WEFT_BFLOAT16},
      {"head", "head.weight", {11, 129}, WEFT_FLOAT32},
      {"head", "copy.none", {0, 5}, WEFT_FLOAT32},
      {"head", "copy.last", {129}, WEFT_FLOAT32},
  };
  const auto is_copy = [](const ModelParam& param) {
    return param.name.starts_with("copy.");
  };
  if (copies == Copies::kAbsent) std::erase_if(model, is_copy);
  if (kind == WEFT_OPTIMIZER_MUON)
    std::erase_if(model, [](const ModelParam& param) { return param.shape.size() != 2; });
  for (ModelParam& param : model)
    param.counted = copies == Copies::kCounted || !is_copy(param);
  return model;
}

// Of a param of this name, the same whatever stands beside it.
std::vector<float> Drawn(std::string_view name, size_t count, uint64_t salt) {
  uint64_t hash = Mix(salt + TestSeed());
  for (const char letter : name)
    hash = Mix(hash + static_cast<unsigned char>(letter));
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i)
    values[i] = static_cast<float>(static_cast<int>(Mix(hash + i) % 4001) - 2000) / 512;
  return values;
}

Elements DrawnElements(const ModelParam& param, weft_dtype_t dtype, uint64_t salt) {
  Elements elements;
  for (const float value : Drawn(param.name, param.count(), salt))
    elements.push_back(EncodeFloat(dtype, value));
  return elements;
}

struct Setting {
  Placement placement;
  OptimizerConfig optimizer;
  bool has_optimizer = true;
  std::vector<weft_shard_norm_t> norms;  // that updates are given, by step; empty: none
  // This rank's gradient of this param is infinite in this step.
  const char* infinite = "";
  int infinite_step = -1;
};

struct Outcome {
  std::vector<weft_shard_norm_t> norms;             // by step
  std::vector<weft_shard_update_result_t> results;  // by step
  std::map<std::string, Elements> values;
};

absl::Status Backward(Context& context, const std::vector<ModelParam>& model, int rank, int step,
                      const Setting& setting) {
  const std::vector<int> units = UnitsOf(model);
  return RunGradientStep(context, model, [&](int unit) -> absl::Status {
    for (size_t p = 0; p < model.size(); ++p) {
      if (units[p] != unit || model[p].count() == 0) continue;
      WEFT_ASSIGN_OR_RETURN(const ParamView view, context.View(static_cast<int>(p)));
      Elements gradient =
          DrawnElements(model[p], view.grad_dtype, static_cast<uint64_t>(1000 + 100 * step + rank));
      if (rank == 0 && step == setting.infinite_step && model[p].name == setting.infinite) {
        gradient.back() = EncodeFloat(view.grad_dtype, std::numeric_limits<float>::infinity());
      }
      WriteElements(view.grad_dtype, gradient, view.grad);
    }
    return absl::OkStatus();
  });
}

absl::Status Step(Context& context, const std::vector<ModelParam>& model, int rank, int step,
                  const Setting& setting, Outcome& outcome) {
  WEFT_RETURN_IF_ERROR(Backward(context, model, rank, step, setting));
  WEFT_ASSIGN_OR_RETURN(const weft_shard_norm_t norm, context.optimizer().GradientNorm());
  outcome.norms.push_back(norm);
  if (!setting.has_optimizer) return context.StepEnd();
  // Every other one clips.
  weft_shard_update_t update = UpdateWith(0.01, step % 2 == 0 ? 0.5 : 0);
  if (!setting.norms.empty()) update.norm = &setting.norms[static_cast<size_t>(step)];
  WEFT_ASSIGN_OR_RETURN(const weft_shard_update_result_t result, context.OptimizerStep(update));
  outcome.results.push_back(result);
  return context.StepEnd();
}

absl::StatusOr<Outcome> RunSteps(std::shared_ptr<ProcessGroup> group, Copies copies,
                                 const Setting& setting) {
  const int rank = group->rank();
  const std::vector<ModelParam> model = Model(copies, setting.optimizer.kind);
  WEFT_ASSIGN_OR_RETURN(
      auto context,
      MakeContext(group, {.limits = {.bucket_bytes = 8192, .first_bucket_bytes = 1024}},
                  SizesOfAxes(setting.placement.preset, group->size())));
  if (setting.has_optimizer) WEFT_RETURN_IF_ERROR(context->SetOptimizer(setting.optimizer));
  WEFT_RETURN_IF_ERROR(Declare(*context, model, setting.placement));
  WEFT_RETURN_IF_ERROR(context->Finalize().status());
  std::vector<Elements> values;
  for (const ModelParam& param : model)
    values.push_back(DrawnElements(param, param.dtype, 1));
  WEFT_RETURN_IF_ERROR(LoadParams(*context, model, values));
  Outcome outcome;
  for (int step = 0; step < kSteps; ++step)
    WEFT_RETURN_IF_ERROR(Step(*context, model, rank, step, setting, outcome));
  WEFT_RETURN_IF_ERROR(context->Verify());
  WEFT_ASSIGN_OR_RETURN(values, ReadParams(*context, model));
  for (size_t p = 0; p < model.size(); ++p)
    outcome.values[model[p].name] = values[p];
  return outcome;
}

bool Same(const weft_shard_norm_t& a, const weft_shard_norm_t& b) {
  return std::memcmp(&a, &b, sizeof(a)) == 0;
}

// Of rank 0; all ranks have the same norms.
Outcome OutcomeOf(int ranks, Copies copies, const Setting& setting) {
  std::vector<Outcome> outcomes(static_cast<size_t>(ranks));
  ExpectAllOk(RunRanks(GroupKind::kLocal, ranks,
                       [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
                         WEFT_ASSIGN_OR_RETURN(outcomes[static_cast<size_t>(rank)],
                                               RunSteps(std::move(group), copies, setting));
                         return absl::OkStatus();
                       }));
  for (const Outcome& outcome : outcomes) {
    for (size_t step = 0; step < outcome.norms.size(); ++step)
      EXPECT_TRUE(Same(outcome.norms[step], outcomes[0].norms[step])) << "step " << step;
  }
  return outcomes[0];
}

void ExpectSameNorms(const Outcome& found, const Outcome& expected) {
  ASSERT_EQ(found.norms.size(), static_cast<size_t>(kSteps));
  for (size_t step = 0; step < found.norms.size(); ++step) {
    EXPECT_TRUE(Same(found.norms[step], expected.norms[step])) << "step " << step;
    EXPECT_GT(found.norms[step].norm, 1);
  }
  for (size_t step = 0; step < found.results.size(); ++step)
    EXPECT_EQ(found.results[step].grad_norm, expected.norms[step].norm) << "step " << step;
}

// Those that both have.
void ExpectSameValues(const Outcome& found, const Outcome& expected) {
  EXPECT_GE(expected.values.size(), 4u);
  for (const auto& [name, values] : expected.values)
    EXPECT_EQ(found.values.at(name), values) << name;
}

// As without the copies; and these are updated, with the same clip, as if they counted and the
// caller had passed that norm.
void ExpectLeftOut(int ranks, const Setting& setting) {
  const Outcome found = OutcomeOf(ranks, Copies::kNotCounted, setting);
  const Outcome without = OutcomeOf(ranks, Copies::kAbsent, setting);
  ExpectSameNorms(found, without);
  if (!setting.has_optimizer) return;
  ExpectSameValues(found, without);
  Setting given = setting;
  given.norms = without.norms;
  const Outcome counted = OutcomeOf(ranks, Copies::kCounted, given);
  EXPECT_GT(counted.norms[0].norm, found.norms[0].norm);
  ExpectSameValues(found, counted);
}

TEST(NotCounted, IsLeftOutOfTheNormUnderEveryPreset) {
  SCOPED_TRACE(StrCat("seed ", TestSeed()));
  for (const int ranks : {1, 3, 4, 7}) {
    for (const weft_shard_preset_t preset : PresetsFor(ranks)) {
      SCOPED_TRACE(StrCat(ranks, " ranks, ", PresetName(preset)));
      ExpectLeftOut(ranks, {.placement = PlacementOf(preset), .optimizer = {.threads = 2}});
    }
  }
}

TEST(NotCounted, IsLeftOutWhereverTensorsAreCut) {
  SCOPED_TRACE(StrCat("seed ", TestSeed()));
  for (const CutRule cut : {CutRule::kRows, CutRule::kParams}) {
    for (const weft_shard_preset_t preset : {WEFT_SHARD_ZERO2, WEFT_SHARD_FULL_SHARD}) {
      SCOPED_TRACE(StrCat(PresetName(preset), ", cut ", static_cast<int>(cut)));
      Placement placement = PlacementOf(preset);
      placement.cut = cut;
      placement.float32_gradients = cut == CutRule::kRows;
      ExpectLeftOut(3, {.placement = placement});
    }
  }
}

// Norms of whole params are those of an update, which copies have like others.
TEST(NotCounted, LeavesTheNormsOfParamsAlone) {
  SCOPED_TRACE(StrCat("seed ", TestSeed()));
  for (const weft_optimizer_kind_t kind :
       {WEFT_OPTIMIZER_LAMB, WEFT_OPTIMIZER_LARS, WEFT_OPTIMIZER_MUON}) {
    for (const weft_shard_preset_t preset : {WEFT_SHARD_NO_SHARD, WEFT_SHARD_FULL_SHARD}) {
      SCOPED_TRACE(StrCat(PresetName(preset), ", kind ", static_cast<int>(kind)));
      Placement placement = PlacementOf(preset);
      placement.cut = kind == WEFT_OPTIMIZER_MUON ? CutRule::kParams : CutRule::kElements;
      ExpectLeftOut(3, {.placement = placement, .optimizer = {.kind = kind}});
    }
  }
}

TEST(NotCounted, IsLeftOutWithoutAnOptimizer) {
  SCOPED_TRACE(StrCat("seed ", TestSeed()));
  ExpectLeftOut(3, {.placement = PlacementOf(WEFT_SHARD_FULL_SHARD), .has_optimizer = false});
}

// The part that counts it sees the same and makes all parts skip.
TEST(NotCounted, AnInfinityIsNotCountedEither) {
  for (const weft_shard_preset_t preset : PresetsFor(4)) {
    SCOPED_TRACE(PresetName(preset));
    for (const bool in_copy : {true, false}) {
      const Outcome outcome = OutcomeOf(4, Copies::kNotCounted,
                                        {.placement = PlacementOf(preset),
                                         .optimizer = {.nonfinite = WEFT_NONFINITE_SKIP},
                                         .infinite = in_copy ? "copy.gain" : "block.bias",
                                         .infinite_step = 1});
      const int expected = in_copy ? 0 : 1;
      EXPECT_EQ(outcome.norms[1].nonfinite, expected);
      EXPECT_EQ(outcome.results[1].skipped, expected);
      EXPECT_EQ(outcome.results[1].nonfinite, expected);
    }
  }
}

// Both are infinite: the sentence is about one that is counted.
TEST(NotCounted, AnInfinityIsToldOfACountedParam) {
  ExpectAllOk(
      RunRanks(GroupKind::kLocal, 2, [](int, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(std::move(group)));
        WEFT_RETURN_IF_ERROR(context->SetOptimizer({.nonfinite = WEFT_NONFINITE_FAIL}));
        const std::vector<ModelParam> model = Model(Copies::kNotCounted);
        WEFT_RETURN_IF_ERROR(Declare(*context, model, PlacementOf(WEFT_SHARD_ZERO2)));
        WEFT_RETURN_IF_ERROR(context->Finalize().status());
        WEFT_RETURN_IF_ERROR(RunGradientStep(*context, model, [&](int unit) -> absl::Status {
          if (unit != 0) return absl::OkStatus();
          const std::vector<float> infinite(300 * 130, std::numeric_limits<float>::infinity());
          WEFT_RETURN_IF_ERROR(context->GradReady(0, infinite.data()));
          return context->GradReady(1, infinite.data());
        }));
        const absl::Status failure = context->OptimizerStep(UpdateWith(0.01)).status();
        EXPECT_EQ(ResultOf(failure), WEFT_CORRUPT);
        EXPECT_THAT(std::string(failure.message()),
                    AllOf(HasSubstr("2257 reduced gradient elements"),
                          HasSubstr("in parameter embed.tokens")));
        return context->StepEnd();
      }));
}

TEST(NotCounted, HasToBeTheSameOnAllRanks) {
  const auto ends = RunRanks(
      GroupKind::kLocal, 3, [](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(std::move(group)));
        WEFT_RETURN_IF_ERROR(
            Declare(*context, Model(rank == 1 ? Copies::kCounted : Copies::kNotCounted)));
        return context->Finalize().status();
      });
  for (const absl::Status& end : ends) {
    EXPECT_EQ(ResultOf(end), WEFT_MISMATCH);
    EXPECT_THAT(std::string(end.message()),
                AllOf(HasSubstr("parameter copy.tokens"), HasSubstr("not counted")));
  }
}

}  // namespace
}  // namespace weft::not_counted_test
