// Steps whose units run forward and backward by turns, as stages of pipelines, as a hint has said: reduced once, replayed from the
// first one on.
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/text.h"
#include "gmock/gmock.h"
#include "shard/step/prediction.h"
#include "tests/shard/all_presets.h"
#include "tests/shard/exact_model.h"
#include "tests/shard/ranks.h"

namespace weft::run_hint_test {
namespace {

using testing::HasSubstr;

constexpr size_t kUnits = 3;

// Both parts of a micro-batch of a stage: all of its units.
std::vector<UnitRun> StageRuns(const std::string& passes) {
  std::vector<UnitRun> runs;
  for (const char pass : passes) {
    for (size_t i = 0; i < kUnits; ++i) {
      const size_t unit = pass == 'F' ? i : kUnits - 1 - i;
      runs.push_back({static_cast<int>(unit), pass == 'B'});
    }
  }
  return runs;
}

struct Case {
  const char* name;
  const char* passes;  // of the units of a stage
};

// 1F1B of the last stage and of the one before it, GPipe, and input and weight gradients apart: B twice.
constexpr Case kCases[] = {{"the last stage", "FBFBFB"},
                           {"the stage before", "FFBFBB"},
                           {"GPipe", "FFFBBB"},
                           {"zero-bubble", "FBFBBB"}};

using Body = std::function<absl::Status(ExactModel&, Context&, const weft_shard_plan_t&)>;

std::vector<absl::Status> RunModel(int ranks, ContextOptions options, weft_shard_preset_t preset,
                                   const std::vector<UnitRun>& runs, const Body& body) {
  options.average = false;
  return RunRanks(GroupKind::kLocal, ranks,
                  [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
                    WEFT_ASSIGN_OR_RETURN(auto context,
                                          MakeContext(group, options, SizesOfAxes(preset, ranks)));
                    WEFT_RETURN_IF_ERROR(context->builder().HintRuns(runs));
                    ExactModel model(*context, ExactUnits(kUnits, preset), rank, ranks);
                    WEFT_ASSIGN_OR_RETURN(const weft_shard_plan_t plan, model.Finalize());
                    return body(model, *context, plan);
                  });
}

TEST(HintRuns, MakesTheFirstStepOfAStageTheExpectedOne) {
  for (const Case& one : kCases) {
    for (const weft_shard_preset_t preset : PresetsFor(4)) {
      for (const int microbatches : {1, 2}) {
        SCOPED_TRACE(StrCat(one.name, ", ", PresetName(preset), ", ", microbatches));
        const std::vector<UnitRun> runs = StageRuns(one.passes);
        const auto body = [&](ExactModel& model, Context& context,
                              const weft_shard_plan_t& plan) -> absl::Status {
          for (int step = 0; step < 3; ++step) {
            WEFT_ASSIGN_OR_RETURN(const auto result,
                                  model.Train(PredictEvents(runs, /*train=*/true, microbatches)));
            EXPECT_EQ(result.order_changed, 0) << "step " << step;
            EXPECT_EQ(result.pool_bytes, plan.pool_bytes) << "step " << step;
            EXPECT_EQ(result.reduced_bytes, plan.traffic_bytes) << "step " << step;
            EXPECT_EQ(context.spilled_bytes_max(), 0u);
            if (preset != WEFT_SHARD_NO_SHARD) {
              EXPECT_EQ(result.replayed, 1) << "step " << step;
            }
          }
          return model.ExpectWeights();
        };
        ExpectAllOk(RunModel(4, {.microbatches = microbatches}, preset, runs, body));
      }
    }
  }
}

// What the hint is for.
TEST(HintRuns, WithoutItForwardAfterBackwardIsRefused) {
  ExpectAllOk(RunModel(
      1, {}, WEFT_SHARD_NO_SHARD, {}, [](ExactModel& model, Context&, const weft_shard_plan_t&) {
        const auto trained =
            model.Train(PredictEvents(StageRuns("FBFB"), /*train=*/true, /*microbatches=*/1));
        EXPECT_EQ(ResultOf(trained.status()), WEFT_BAD_STATE);
        return absl::OkStatus();
      }));
}

TEST(HintRuns, EvaluationIsExpectedToMakeTheForwards) {
  ExpectAllOk(RunModel(2, {}, WEFT_SHARD_FULL_SHARD, StageRuns("FBFB"),
                       [](ExactModel& model, Context&, const weft_shard_plan_t&) -> absl::Status {
                         WEFT_ASSIGN_OR_RETURN(
                             const auto result,
                             model.Eval(PredictEvents(StageRuns("FF"), /*train=*/false, 1)));
                         EXPECT_EQ(result.replayed, 1);
                         return model.ExpectWeights();
                       }));
}

TEST(HintRuns, IsReplacedByAnOrderThatIsHintedLater) {
  const auto body = [](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
    WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group, {.average = false}));
    WEFT_RETURN_IF_ERROR(context->builder().HintRuns(StageRuns("FBFB")));
    WEFT_RETURN_IF_ERROR(context->builder().HintOrder({2, 0, 1}));
    ExactModel model(*context, ExactUnits(kUnits, WEFT_SHARD_FULL_SHARD), rank, 2);
    WEFT_RETURN_IF_ERROR(model.Finalize().status());
    WEFT_ASSIGN_OR_RETURN(const auto result, model.Train(ScriptOf({2, 0, 1}, {1, 0, 2})));
    EXPECT_EQ(result.replayed, 1);
    return model.ExpectWeights();
  };
  ExpectAllOk(RunRanks(GroupKind::kLocal, 2, body));
}

TEST(HintRuns, HasToBeTheSameOnAllRanks) {
  const auto ends =
      RunRanks(GroupKind::kLocal, 2, [](int rank, std::shared_ptr<ProcessGroup> group) {
        const auto finalize = [&]() -> absl::Status {
          WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group));
          WEFT_RETURN_IF_ERROR(AddUnitWithParam(*context, "a", {4}).status());
          WEFT_RETURN_IF_ERROR(context->builder().HintRuns({{0, false}, {0, rank == 1}}));
          return context->Finalize().status();
        };
        return finalize();
      });
  for (const absl::Status& end : ends) {
    EXPECT_EQ(ResultOf(end), WEFT_MISMATCH);
    EXPECT_THAT(
        std::string(end.message()),
        HasSubstr("run 1 of the hinted ones: rank 1 has backward of unit a, rank 0 has forward"));
  }
}

}  // namespace
}  // namespace weft::run_hint_test
