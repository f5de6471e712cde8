// Settings of a context that is finalized: another prefetch and other intervals of verification, between steps.
#include "shard/context/settings.h"

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "base/text.h"
#include "gtest/gtest.h"
#include "tests/shard/exact_model.h"
#include "tests/shard/ranks.h"
#include "tests/shard/small_model.h"

namespace weft::settings_test {
namespace {

TEST(Settings, AnotherPrefetchIsLearntByOneStepOfEachKind) {
  const std::vector<ModelParam> model = SmallModel();
  for (const weft_shard_preset_t preset :
       {WEFT_SHARD_NO_SHARD, WEFT_SHARD_GRAD_OP, WEFT_SHARD_FULL_SHARD}) {
    for (const weft_shard_views_t views : {WEFT_SHARD_VIEWS_MOVE, WEFT_SHARD_VIEWS_STABLE}) {
      SCOPED_TRACE(StrCat(PresetName(preset), ", views ", static_cast<int>(views)));
      Scenario scenario{.ranks = 3};
      const auto body = [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group, {.views = views}));
        WEFT_RETURN_IF_ERROR(Declare(*context, model, PlacementOf(preset)));
        WEFT_RETURN_IF_ERROR(context->Finalize().status());
        int step = 0;
        const auto run = [&](bool replayed) -> absl::Status {
          WEFT_ASSIGN_OR_RETURN(const weft_shard_step_result_t result,
                                RunStep(*context, model, scenario, rank, step));
          if (preset != WEFT_SHARD_NO_SHARD) {
            EXPECT_EQ(result.replayed, replayed ? 1 : 0) << "step " << step;
          }
          WEFT_RETURN_IF_ERROR(
              ExpectOwn(*context, model, ExpectedGradients(model, scenario, step)));
          ++step;
          WEFT_RETURN_IF_ERROR(context->Updated());
          return context->StepEnd();
        };
        WEFT_RETURN_IF_ERROR(run(true));
        for (const int prefetch : {3, 0, 1}) {
          WEFT_RETURN_IF_ERROR(context->builder().Change({.prefetch = prefetch}));
          WEFT_RETURN_IF_ERROR(run(false));
          WEFT_RETURN_IF_ERROR(run(true));
          WEFT_RETURN_IF_ERROR(context->builder().Change({.prefetch = prefetch}));
          WEFT_RETURN_IF_ERROR(run(true));  // it was so already
        }
        return absl::OkStatus();
      };
      ExpectAllOk(RunRanks(GroupKind::kLocal, scenario.ranks, body));
    }
  }
}

// A copy that differs is found by the steps from which on it is looked for, and not by those before.
TEST(Settings, VerificationIsTurnedOnAndOff) {
  const std::vector<ModelParam> model = SmallModel();
  const Scenario scenario{.ranks = 2};
  const auto body = [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
    WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group));
    WEFT_RETURN_IF_ERROR(Declare(*context, model));
    WEFT_RETURN_IF_ERROR(context->Finalize().status());
    const auto run = [&](int step) -> absl::Status {
      WEFT_RETURN_IF_ERROR(RunStep(*context, model, scenario, rank, step).status());
      return context->StepEnd();
    };
    WEFT_ASSIGN_OR_RETURN(const ParamView view, context->View(0));
    if (rank == 1) static_cast<unsigned char*>(view.data)[0] ^= 1;
    WEFT_RETURN_IF_ERROR(run(0));
    WEFT_RETURN_IF_ERROR(context->builder().Change({.verify_steps = 2}));
    WEFT_RETURN_IF_ERROR(run(1));
    EXPECT_EQ(ResultOf(run(2)), WEFT_MISMATCH);
    WEFT_RETURN_IF_ERROR(context->builder().Change({.verify_steps = 0}));
    WEFT_RETURN_IF_ERROR(run(3));
    return run(4);
  };
  ExpectAllOk(RunRanks(GroupKind::kLocal, scenario.ranks, body));
}

TEST(Settings, ThatDifferAreNamedAndChangeNothing) {
  const std::vector<ModelParam> model = SmallModel();
  const Scenario scenario{.ranks = 3};
  const auto body = [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
    WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group));
    WEFT_RETURN_IF_ERROR(Declare(*context, model, PlacementOf(WEFT_SHARD_FULL_SHARD)));
    WEFT_RETURN_IF_ERROR(context->Finalize().status());
    const absl::Status differs =
        context->builder().Change({.prefetch = rank == 2 ? 4 : 2, .verify_steps = 1});
    EXPECT_EQ(ResultOf(differs), WEFT_MISMATCH);
    EXPECT_EQ(FieldsOf(differs).rank, 2);
    EXPECT_NE(differs.message().find("rank 2 asks for prefetch 4, verify_steps 1, rank 0 for "
                                     "prefetch 2, verify_steps 1"),
              absl::string_view::npos)
        << differs;
    WEFT_ASSIGN_OR_RETURN(const weft_shard_step_result_t result,
                          RunStep(*context, model, scenario, rank, 0));
    EXPECT_EQ(result.replayed, 1);
    return context->StepEnd();
  };
  ExpectAllOk(RunRanks(GroupKind::kLocal, scenario.ranks, body));
}

}  // namespace
}  // namespace weft::settings_test
