// Calls in two forms: gathering that is started early and waited for late, and reductions that are waited for
// one unit at a time.
#include <string>
#include <vector>

#include "base/status.h"
#include "base/text.h"
#include "gtest/gtest.h"
#include "tests/shard/exact_model.h"
#include "tests/shard/ranks.h"
#include "tests/shard/small_model.h"

namespace weft::split_forms_test {
namespace {

using Kind = Event::Kind;

constexpr weft_shard_preset_t kPresets[] = {WEFT_SHARD_NO_SHARD, WEFT_SHARD_ZERO1, WEFT_SHARD_ZERO2,
                                            WEFT_SHARD_GRAD_OP, WEFT_SHARD_FULL_SHARD};

// Each unit is unsharded two units ahead, in forward and in backward, and resharded after its use.
Script SplitScript(int units, int microbatches) {
  Script script;
  for (int m = 0; m < microbatches; ++m) {
    script.push_back({Kind::kMicrobatchBegin, m == microbatches - 1 ? 1 : 0});
    const auto pass = [&](bool forward) {
      const auto unit_at = [&](int i) {
        return forward ? i : units - 1 - i;
      };
      for (int i = 0; i < units + 2; ++i) {
        if (i < units) script.push_back({Kind::kUnshard, unit_at(i)});
        if (i < 2) continue;
        const int unit = unit_at(i - 2);
        script.push_back({forward ? Kind::kPreForward : Kind::kPreBackward, unit});
        script.push_back({forward ? Kind::kPostForward : Kind::kPostBackward, unit});
        script.push_back({Kind::kReshard, unit});
      }
    };
    pass(true);
    pass(false);
    script.push_back({Kind::kMicrobatchEnd, 0});
  }
  script.push_back({Kind::kFinish, 0});
  return script;
}

TEST(SplitForms, GatherAheadWithEveryPresetAndAreReplayed) {
  for (const weft_shard_preset_t preset : kPresets) {
    for (const int ranks : {1, 2, 3}) {
      for (const int prefetch : {0, 1, 3}) {
        SCOPED_TRACE(StrCat(PresetName(preset), ", ", ranks, " ranks, prefetch ", prefetch));
        const auto body = [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
          WEFT_ASSIGN_OR_RETURN(auto context,
                                MakeContext(group, {.average = false, .prefetch = prefetch}));
          ExactModel model(*context, ExactUnits(5, preset), rank, ranks);
          WEFT_RETURN_IF_ERROR(model.Finalize().status());
          for (int step = 0; step < 4; ++step) {
            WEFT_ASSIGN_OR_RETURN(const weft_shard_step_result_t result,
                                  model.Train(SplitScript(5, 2)));
            if (step > 0 && preset != WEFT_SHARD_NO_SHARD) {
              EXPECT_EQ(result.replayed, 1) << step;
            }
          }
          return model.ExpectWeights();
        };
        ExpectAllOk(RunRanks(GroupKind::kLocal, ranks, body));
      }
    }
  }
}

// Units of 300 elements, one param each.
absl::StatusOr<std::unique_ptr<Context>> MakeUnits(std::shared_ptr<ProcessGroup> group,
                                                   const ContextOptions& options,
                                                   const Placement& placement,
                                                   const std::vector<int>& axes = {},
                                                   int units = 2) {
  WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(std::move(group), options, axes));
  const int64_t count = 300;
  for (int i = 0; i < units; ++i) {
    WEFT_ASSIGN_OR_RETURN(const int unit, context->BeginUnit(StrCat("unit", i), placement));
    WEFT_RETURN_IF_ERROR(context->AddParam(unit, StrCat("p", i), &count, 1, WEFT_FLOAT32).status());
    WEFT_RETURN_IF_ERROR(context->SealUnit(unit));
  }
  WEFT_RETURN_IF_ERROR(context->Finalize().status());
  return context;
}

TEST(SplitForms, AViewIsThereFromTheWaitToReshard) {
  const auto body = [&](int, std::shared_ptr<ProcessGroup> group) -> absl::Status {
    WEFT_ASSIGN_OR_RETURN(auto context, MakeUnits(group, {}, PlacementOf(WEFT_SHARD_FULL_SHARD)));
    const std::vector<float> values(300, 2.5f);
    WEFT_RETURN_IF_ERROR(context->Load(0, values.data(), Context::kEveryRank));
    WEFT_RETURN_IF_ERROR(context->StepBegin(WEFT_SHARD_EVAL, 0));
    WEFT_RETURN_IF_ERROR(context->MicrobatchBegin(0, true));
    EXPECT_EQ(ResultOf(context->UnshardWait(0)), WEFT_BAD_STATE);
    EXPECT_EQ(ResultOf(context->Reshard(0)), WEFT_BAD_STATE);
    WEFT_RETURN_IF_ERROR(context->UnshardStart(0));
    EXPECT_EQ(ResultOf(context->UnshardStart(0)), WEFT_BAD_STATE);
    EXPECT_EQ(ResultOf(context->View(0).status()), WEFT_BAD_STATE);
    EXPECT_EQ(ResultOf(context->Reshard(0)), WEFT_BAD_STATE);
    WEFT_RETURN_IF_ERROR(context->UnshardWait(0));
    WEFT_RETURN_IF_ERROR(context->UnshardWait(0));
    WEFT_ASSIGN_OR_RETURN(const ParamView view, context->View(0));
    EXPECT_TRUE(std::equal(values.begin(), values.end(), static_cast<const float*>(view.data)));
    const absl::Status open = context->MicrobatchEnd();
    EXPECT_EQ(ResultOf(open), WEFT_BAD_STATE);
    EXPECT_NE(open.message().find("unit unit0 is unsharded"), absl::string_view::npos) << open;
    WEFT_RETURN_IF_ERROR(context->Reshard(0));
    EXPECT_EQ(ResultOf(context->View(0).status()), WEFT_BAD_STATE);
    WEFT_RETURN_IF_ERROR(context->MicrobatchEnd());
    EXPECT_EQ(ResultOf(context->UnshardStart(0)), WEFT_BAD_STATE);
    WEFT_RETURN_IF_ERROR(context->Finish().status());
    return context->StepEnd();
  };
  ExpectAllOk(RunRanks(GroupKind::kLocal, 2, body));
}

absl::Status GiveAll(Context& context, int param, float value) {
  const std::vector<float> gradient(300, value);
  return context.GradReady(param, gradient.data());
}

// This rank's part of a reduced gradient is `sum` everywhere.
absl::Status ExpectReduced(Context& context, int param, float sum) {
  WEFT_ASSIGN_OR_RETURN(const auto part, context.OwnPart(param));
  const auto* const grad = static_cast<const float*>(part.first.grad);
  for (size_t i = 0; i < part.first.count; ++i) {
    if (grad[i] != sum) return absl::InternalError(StrCat("gradient ", grad[i], " for ", sum));
  }
  return absl::OkStatus();
}

void ExpectWaits(weft_shard_preset_t preset, weft_shard_wire_t wire, int ranks,
                 const std::vector<int>& axes = {}) {
  SCOPED_TRACE(StrCat(PresetName(preset), ", wire ", wire));
  const auto body = [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
    Placement placement = PlacementOf(preset);
    placement.wire = wire;
    const ContextOptions options{.limits = {.bucket_bytes = 512, .first_bucket_bytes = 512},
                                 .average = false};
    WEFT_ASSIGN_OR_RETURN(auto context, MakeUnits(group, options, placement, axes));
    for (int step = 0; step < 3; ++step) {
      WEFT_RETURN_IF_ERROR(context->StepBegin(WEFT_SHARD_TRAIN, 0));
      WEFT_RETURN_IF_ERROR(context->MicrobatchBegin(0, true));
      for (const int unit : {0, 1}) {
        WEFT_RETURN_IF_ERROR(context->PreForward(unit));
        WEFT_RETURN_IF_ERROR(context->PostForward(unit));
      }
      EXPECT_EQ(ResultOf(context->ReduceWait(1)), WEFT_BAD_STATE);
      for (const int unit : {1, 0}) {
        WEFT_RETURN_IF_ERROR(context->PreBackward(unit));
        WEFT_RETURN_IF_ERROR(GiveAll(*context, unit, static_cast<float>(rank + step + unit)));
        EXPECT_EQ(ResultOf(context->ReduceWait(unit)), WEFT_BAD_STATE);
        WEFT_RETURN_IF_ERROR(context->PostBackward(unit));
        WEFT_RETURN_IF_ERROR(context->ReduceWait(unit));
        float sum = 0;
        for (int other = 0; other < ranks; ++other)
          sum += static_cast<float>(other + step + unit);
        WEFT_RETURN_IF_ERROR(ExpectReduced(*context, unit, sum));
      }
      WEFT_RETURN_IF_ERROR(context->MicrobatchEnd());
      WEFT_RETURN_IF_ERROR(context->ReduceWait(0));
      WEFT_RETURN_IF_ERROR(context->Finish().status());
      WEFT_RETURN_IF_ERROR(context->StepEnd());
    }
    return absl::OkStatus();
  };
  ExpectAllOk(RunRanks(GroupKind::kLocal, ranks, body));
}

TEST(SplitForms, OneUnitsGradientsAreReducedBeforeFinish) {
  for (const weft_shard_preset_t preset : kPresets) {
    ExpectWaits(preset, WEFT_SHARD_WIRE_GRADIENTS, 3);
    ExpectWaits(preset, WEFT_SHARD_WIRE_BFLOAT16, 2);
  }
  ExpectWaits(WEFT_SHARD_HYBRID_SHARD, WEFT_SHARD_WIRE_GRADIENTS, 4, {2, 2});
}

// Reductions start in one order on all ranks: a unit whose turn has not come cannot be waited for.
TEST(SplitForms, WaitingForAReductionThatCannotStartIsRefused) {
  const auto body = [&](int, std::shared_ptr<ProcessGroup> group) -> absl::Status {
    const ContextOptions options{.limits = {.bucket_bytes = 512, .first_bucket_bytes = 512}};
    WEFT_ASSIGN_OR_RETURN(auto context, MakeUnits(group, options, PlacementOf(WEFT_SHARD_ZERO1)));
    WEFT_RETURN_IF_ERROR(context->StepBegin(WEFT_SHARD_TRAIN, 0));
    WEFT_RETURN_IF_ERROR(context->MicrobatchBegin(0, true));
    for (const int unit : {0, 1}) {
      WEFT_RETURN_IF_ERROR(context->PreForward(unit));
      WEFT_RETURN_IF_ERROR(context->PostForward(unit));
    }
    WEFT_RETURN_IF_ERROR(context->PreBackward(0));
    WEFT_RETURN_IF_ERROR(context->PostBackward(0));
    const absl::Status early = context->ReduceWait(0);
    EXPECT_EQ(ResultOf(early), WEFT_BAD_STATE);
    EXPECT_NE(early.message().find("that of unit unit1 comes first"), absl::string_view::npos)
        << early;
    WEFT_RETURN_IF_ERROR(context->MicrobatchEnd());
    WEFT_RETURN_IF_ERROR(context->Finish().status());
    EXPECT_EQ(ResultOf(context->ReduceWait(0)), WEFT_BAD_STATE);
    return context->StepEnd();
  };
  ExpectAllOk(RunRanks(GroupKind::kLocal, 2, body));
}

// A rank that lacks a gradient starts a reduction later than one that gives it. Who has no room until then may not wait for it, as
// the others gather meanwhile.
TEST(SplitForms, UnitsAreGatheredInABackwardWhoseGradientIsMissingOnOneRank) {
  constexpr int kUnits = 4;
  const auto body = [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
    ContextOptions options{.limits = {.bucket_bytes = 512, .first_bucket_bytes = 512}};
    options.prefetch = 0;
    options.timeout_ns = 5000000000;
    WEFT_ASSIGN_OR_RETURN(
        auto context, MakeUnits(group, options, PlacementOf(WEFT_SHARD_FULL_SHARD), {}, kUnits));
    WEFT_RETURN_IF_ERROR(context->StepBegin(WEFT_SHARD_TRAIN, 0));
    WEFT_RETURN_IF_ERROR(context->MicrobatchBegin(0, true));
    for (int unit = 0; unit < kUnits; ++unit) {
      WEFT_RETURN_IF_ERROR(context->PreForward(unit));
      WEFT_RETURN_IF_ERROR(context->PostForward(unit));
    }
    constexpr int kLast = kUnits - 1;
    WEFT_RETURN_IF_ERROR(context->PreBackward(kLast));
    if (rank == 0) WEFT_RETURN_IF_ERROR(context->GradReady(kLast, nullptr));
    for (int unit = 0; unit < kLast; ++unit) {
      WEFT_RETURN_IF_ERROR(context->UnshardStart(unit));
      WEFT_RETURN_IF_ERROR(context->UnshardWait(unit));
    }
    WEFT_RETURN_IF_ERROR(context->PostBackward(kLast));
    for (int unit = 0; unit < kLast; ++unit)
      WEFT_RETURN_IF_ERROR(context->Reshard(unit));
    WEFT_RETURN_IF_ERROR(context->MicrobatchEnd());
    WEFT_RETURN_IF_ERROR(context->Finish().status());
    return context->StepEnd();
  };
  ExpectAllOk(RunRanks(GroupKind::kLocal, 2, body));
}

}  // namespace
}  // namespace weft::split_forms_test
