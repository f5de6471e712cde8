// A step whose gradients are dropped changes nothing, of whatever kind the optimizer is; and one that neither updates nor drops
// does not end.
#include <limits>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/shard/all_presets.h"
#include "tests/shard/gradient_step.h"
#include "tests/shard/ranks.h"
#include "tests/shard/small_model.h"

namespace weft {
namespace {

using testing::HasSubstr;

constexpr weft_optimizer_kind_t kKinds[] = {
    WEFT_OPTIMIZER_ADAMW, WEFT_OPTIMIZER_SGD, WEFT_OPTIMIZER_LION, WEFT_OPTIMIZER_LAMB,
    WEFT_OPTIMIZER_LARS,  WEFT_OPTIMIZER_OWN, WEFT_OPTIMIZER_MUON};

// Matrices, for MUON.
std::vector<ModelParam> Model() {
  return {{"a", "a.weight", {19, 23}, WEFT_FLOAT32}, {"b", "b.weight", {31, 17}, WEFT_FLOAT32}};
}

absl::StatusOr<std::unique_ptr<Context>> Make(std::shared_ptr<ProcessGroup> group,
                                              weft_shard_preset_t preset,
                                              weft_optimizer_kind_t kind) {
  const int ranks = group->size();
  WEFT_ASSIGN_OR_RETURN(auto context,
                        MakeContext(std::move(group), {}, SizesOfAxes(preset, ranks)));
  OptimizerConfig config{.kind = kind};
  config.sgd.momentum = 0.9;
  config.dynamic_scale = true;
  config.scale = {.initial = 8, .hysteresis = 1};
  config.nonfinite = WEFT_NONFINITE_FAIL;
  WEFT_RETURN_IF_ERROR(context->SetOptimizer(config));
  Placement placement = PlacementOf(preset);
  placement.cut = CutRule::kParams;
  const std::vector<ModelParam> model = Model();
  WEFT_RETURN_IF_ERROR(Declare(*context, model, placement));
  WEFT_RETURN_IF_ERROR(context->Finalize().status());
  for (size_t param = 0; param < model.size(); ++param) {
    std::vector<float> values(model[param].count());
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>((i * 7 + param) % 13) - 6;
    WEFT_RETURN_IF_ERROR(
        context->Load(static_cast<int>(param), values.data(), Context::kEveryRank));
  }
  return context;
}

absl::Status Backward(Context& context, float value) {
  const std::vector<ModelParam> model = Model();
  return RunGradientStep(context, model, [&](int unit) {
    std::vector<float> gradient(model[static_cast<size_t>(unit)].count());
    for (size_t i = 0; i < gradient.size(); ++i)
      gradient[i] = value * static_cast<float>(i % 5 + 1);
    return context.GradReady(unit, gradient.data());
  });
}

// The caller's own update, of its parts.
absl::Status UpdateParts(Context& context) {
  for (int param = 0; param < static_cast<int>(Model().size()); ++param) {
    WEFT_ASSIGN_OR_RETURN(const auto part, context.OwnPart(param));
    auto* const data = static_cast<float*>(part.first.data);
    const auto* const grad = static_cast<const float*>(part.first.grad);
    for (size_t i = 0; i < part.first.count; ++i)
      data[i] -= grad[i];
  }
  return context.Updated();
}

absl::Status Update(Context& context, weft_optimizer_kind_t kind, double* norm) {
  WEFT_RETURN_IF_ERROR(Backward(context, 0.25F));
  EXPECT_EQ(ResultOf(context.StepEnd()), WEFT_BAD_STATE);
  WEFT_ASSIGN_OR_RETURN(const weft_shard_update_result_t result,
                        context.OptimizerStep(UpdateWith(0.125)));
  EXPECT_EQ(result.skipped, 0);
  EXPECT_EQ(result.loss_scale, 8);
  *norm = result.grad_norm;
  if (kind == WEFT_OPTIMIZER_OWN) WEFT_RETURN_IF_ERROR(UpdateParts(context));
  return context.StepEnd();
}

// Of gradients that would be an overflow, the first of which fails.
absl::Status Drop(Context& context) {
  WEFT_RETURN_IF_ERROR(Backward(context, std::numeric_limits<float>::infinity()));
  WEFT_RETURN_IF_ERROR(context.optimizer().GradientNorm().status());
  const absl::Status refused = context.StepEnd();
  EXPECT_EQ(ResultOf(refused), WEFT_BAD_STATE);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("drop_gradients"));
  WEFT_RETURN_IF_ERROR(context.DropGradients());
  EXPECT_EQ(ResultOf(context.OptimizerStep(UpdateWith(0.125)).status()), WEFT_BAD_STATE);
  EXPECT_EQ(ResultOf(context.DropGradients()), WEFT_BAD_STATE);
  return context.StepEnd();
}

struct Outcome {
  std::vector<double> norms;
  std::vector<std::vector<float>> values;
  bool operator==(const Outcome&) const = default;
};

absl::StatusOr<Outcome> Train(std::shared_ptr<ProcessGroup> group, weft_shard_preset_t preset,
                              weft_optimizer_kind_t kind, bool drops) {
  WEFT_ASSIGN_OR_RETURN(auto context, Make(std::move(group), preset, kind));
  Outcome outcome;
  for (int step = 0; step < 3; ++step) {
    if (drops) WEFT_RETURN_IF_ERROR(Drop(*context));
    WEFT_RETURN_IF_ERROR(Update(*context, kind, &outcome.norms.emplace_back()));
  }
  for (const ModelParam& param : Model()) {
    std::vector<float>& values = outcome.values.emplace_back(param.count());
    WEFT_RETURN_IF_ERROR(context->Read(static_cast<int>(outcome.values.size()) - 1, values.data()));
  }
  return outcome;
}

TEST(DropGradients, ChangesNothingForAllKindsAndPresets) {
  for (const weft_optimizer_kind_t kind : kKinds) {
    for (const int ranks : {1, 2, 4}) {
      for (const weft_shard_preset_t preset : PresetsFor(ranks)) {
        if (ranks == 2 && preset != WEFT_SHARD_FULL_SHARD) continue;
        SCOPED_TRACE(StrCat("kind ", static_cast<int>(kind), ", ", PresetName(preset), ", ", ranks,
                            " ranks"));
        const auto train = [&](bool drops) {
          return SameOnAllRanks<Outcome>(GroupKind::kLocal, ranks,
                                         [&](int, std::shared_ptr<ProcessGroup> group) {
                                           return Train(std::move(group), preset, kind, drops);
                                         });
        };
        EXPECT_EQ(train(true), train(false));
      }
    }
  }
}

// In a context without an optimizer the gradients are the caller's: nothing is asked for, and there is nothing to drop.
TEST(DropGradients, IsForContextsWithAnOptimizer) {
  ExpectAllOk(
      RunRanks(GroupKind::kLocal, 2, [](int, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(std::move(group)));
        WEFT_RETURN_IF_ERROR(Declare(*context, Model(), {}));
        WEFT_RETURN_IF_ERROR(context->Finalize().status());
        WEFT_RETURN_IF_ERROR(Backward(*context, 1));
        const absl::Status refused = context->DropGradients();
        EXPECT_EQ(ResultOf(refused), WEFT_BAD_STATE);
        EXPECT_THAT(std::string(refused.message()), HasSubstr("no optimizer"));
        return context->StepEnd();
      }));
}

TEST(DropGradients, WhileOthersUpdateIsAMismatchThatNamesBoth) {
  for (const int dropping : {0, 2}) {
    ExpectAllOk(RunRanks(
        GroupKind::kLocal, 3, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
          WEFT_ASSIGN_OR_RETURN(
              auto context, Make(std::move(group), WEFT_SHARD_FULL_SHARD, WEFT_OPTIMIZER_ADAMW));
          WEFT_RETURN_IF_ERROR(Backward(*context, 1));
          const bool drops = rank == dropping;
          const absl::Status status =
              drops ? context->DropGradients() : context->OptimizerStep(UpdateWith(0.125)).status();
          EXPECT_EQ(ResultOf(status), WEFT_MISMATCH);
          EXPECT_THAT(
              std::string(status.message()),
              HasSubstr(StrCat(drops ? "drop_gradients" : "optimizer_step",
                               " on group local: rank ", dropping, " called drop_gradients, ranks ",
                               dropping == 0 ? "1, 2" : "0, 1",
                               " called optimizer_step; make the same call on every rank: "
                               "nothing was updated")));
          WEFT_RETURN_IF_ERROR(context->StepEnd());
          double norm = 0;
          return Update(*context, WEFT_OPTIMIZER_ADAMW, &norm);
        }));
  }
}

}  // namespace
}  // namespace weft
