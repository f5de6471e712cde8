// The numbers of a context that belong to no param, and when the calls for its state are refused.
#include <cstring>
#include <limits>
#include <string>

#include "base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/shard/ranks.h"
#include "tests/shard/saved_state.h"

namespace weft::state_calls_test {
namespace {

using testing::HasSubstr;

// Steps in a row whose gradients are not finite are counted over the interruption.
TEST(StateCalls, CountsStepsThatAreNotFiniteOnAfterARestore) {
  StateCase setup{
      .ranks = 2, .optimizer = StateOptimizer(WEFT_OPTIMIZER_ADAMW), .infinite = {1, 2, 3}};
  setup.optimizer.dynamic_scale = false;
  setup.optimizer.nonfinite = WEFT_NONFINITE_FAIL;
  setup.optimizer.nonfinite_steps = 3;
  const WholeState saved = RunFrom(setup, nullptr, 0, 3);
  ASSERT_FALSE(HasFailure());
  EXPECT_EQ(saved.scalars.nonfinite_steps, 2);
  EXPECT_EQ(saved.scalars.update_count, 1);
  EXPECT_EQ(saved.scalars.steps_begun, 3);
  EXPECT_EQ(saved.scalars.train_steps_begun, 3);
  for (const absl::Status& status :
       RunRanks(GroupKind::kLocal, 2,
                [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
                  WEFT_ASSIGN_OR_RETURN(auto context, MakeTrained(group, setup));
                  WEFT_RETURN_IF_ERROR(RestoreState(*context, saved));
                  return TrainSteps(*context, setup, rank, 3, 1);
                })) {
    EXPECT_EQ(ResultOf(status), WEFT_CORRUPT) << status.message();
    EXPECT_THAT(std::string(status.message()), HasSubstr("step 4"));
  }
}

TEST(StateCalls, ComparesScalarsWithTheNextUpdate) {
  const StateCase setup{.preset = WEFT_SHARD_FULL_SHARD,
                        .ranks = 3,
                        .optimizer = StateOptimizer(WEFT_OPTIMIZER_ADAMW)};
  ExpectAllOk(RunRanks(
      GroupKind::kLocal, 3, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(auto context, MakeTrained(group, setup));
        WEFT_RETURN_IF_ERROR(TrainSteps(*context, setup, rank, 0, 1));
        WEFT_ASSIGN_OR_RETURN(const weft_shard_state_scalars_t right, context->state().Scalars());
        weft_shard_state_scalars_t wrong = right;
        wrong.update_count = 7;
        if (rank == 1) WEFT_RETURN_IF_ERROR(context->state().SetScalars(wrong));
        const absl::Status status = TrainSteps(*context, setup, rank, 1, 1);
        EXPECT_EQ(ResultOf(status), WEFT_MISMATCH) << status.message();
        EXPECT_THAT(std::string(status.message()),
                    HasSubstr("update_count 7 on rank 1, update_count 1 on ranks 0, 2; set the "
                              "same on every rank with weft_shard_state_scalars_set"));
        // Nothing was updated, and the context goes on.
        WEFT_RETURN_IF_ERROR(context->StepEnd());
        WEFT_RETURN_IF_ERROR(context->state().SetScalars(right));
        return TrainSteps(*context, setup, rank, 1, 1);
      }));
}

TEST(StateCalls, ComparesWhatIsSaidToBeWritten) {
  const StateCase setup{
      .preset = WEFT_SHARD_ZERO1, .ranks = 2, .optimizer = StateOptimizer(WEFT_OPTIMIZER_LION)};
  ExpectAllOk(RunRanks(
      GroupKind::kLocal, 2, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(auto context, MakeTrained(group, setup));
        StateAccess& state = context->state();
        absl::Status status =
            state.Written(rank == 0 ? WEFT_SHARD_STATE_ALL : WEFT_SHARD_STATE_VALUES);
        EXPECT_EQ(ResultOf(status), WEFT_MISMATCH);
        EXPECT_THAT(std::string(status.message()), HasSubstr("kinds 15 on rank 0"));
        EXPECT_THAT(std::string(status.message()), HasSubstr("kinds 1 on rank 1"));
        WEFT_ASSIGN_OR_RETURN(weft_shard_state_scalars_t scalars, state.Scalars());
        scalars.train_steps_begun = scalars.steps_begun = 40 + rank;
        WEFT_RETURN_IF_ERROR(state.SetScalars(scalars));
        status = state.Written(WEFT_SHARD_STATE_ALL);
        EXPECT_EQ(ResultOf(status), WEFT_MISMATCH);
        EXPECT_THAT(std::string(status.message()), HasSubstr("train_steps_begun 41"));
        // Evaluations are each rank's own affair.
        scalars.train_steps_begun = 40;
        WEFT_RETURN_IF_ERROR(state.SetScalars(scalars));
        WEFT_RETURN_IF_ERROR(state.Written(WEFT_SHARD_STATE_ALL));
        return TrainSteps(*context, setup, rank, 0, 2);
      }));
}

TEST(StateCalls, IsRefusedInTheMiddleOfAStep) {
  const StateCase setup{
      .preset = WEFT_SHARD_ZERO1, .ranks = 2, .optimizer = StateOptimizer(WEFT_OPTIMIZER_ADAMW)};
  ExpectAllOk(RunRanks(
      GroupKind::kLocal, 2, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(auto early, MakeContext(group));
        const auto expect_early = [](const absl::Status& status) {
          EXPECT_EQ(ResultOf(status), WEFT_BAD_STATE);
          EXPECT_THAT(std::string(status.message()), HasSubstr("is not finalized"));
        };
        WEFT_RETURN_IF_ERROR(AddUnitWithParam(*early, "a", {16}).status());
        expect_early(early->state().Part(0, WEFT_SHARD_STATE_VALUE).status());
        expect_early(early->state().Scalars().status());
        expect_early(early->state().SetScalars({}));
        expect_early(early->state().Written(WEFT_SHARD_STATE_ALL));

        WEFT_ASSIGN_OR_RETURN(auto context, MakeTrained(group, setup));
        StateAccess& state = context->state();
        WEFT_ASSIGN_OR_RETURN(weft_shard_state_scalars_t scalars, state.Scalars());
        WEFT_RETURN_IF_ERROR(context->StepBegin(WEFT_SHARD_TRAIN, 0));
        const auto expect_later = [](const absl::Status& status, const char* call) {
          EXPECT_EQ(ResultOf(status), WEFT_BAD_STATE);
          EXPECT_THAT(std::string(status.message()), HasSubstr(call));
          EXPECT_THAT(std::string(status.message()), HasSubstr("between steps or after finish"));
        };
        expect_later(state.Part(0, WEFT_SHARD_STATE_VALUE).status(), "state_part");
        expect_later(state.Scalars().status(), "state_scalars_get");
        expect_later(state.SetScalars(scalars), "state_scalars_set");
        expect_later(state.Written(WEFT_SHARD_STATE_ALL), "state_written");
        WEFT_RETURN_IF_ERROR(context->MicrobatchBegin(0, true));
        WEFT_RETURN_IF_ERROR(context->MicrobatchEnd());
        WEFT_RETURN_IF_ERROR(context->Finish().status());
        WEFT_RETURN_IF_ERROR(SaveState(*context).status());
        const absl::Status status = state.SetScalars(scalars);
        EXPECT_EQ(ResultOf(status), WEFT_BAD_STATE);
        EXPECT_THAT(std::string(status.message()), HasSubstr("after step_end"));
        WEFT_RETURN_IF_ERROR(context->DropGradients());
        WEFT_RETURN_IF_ERROR(context->StepEnd());
        return TrainSteps(*context, setup, rank, 0, 1);
      }));
}

TEST(StateCalls, RefusesScalarsThatCannotBe) {
  const StateCase setup{.ranks = 1, .optimizer = StateOptimizer(WEFT_OPTIMIZER_ADAMW)};
  ExpectAllOk(RunRanks(
      GroupKind::kLocal, 1, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(auto context, MakeTrained(group, setup));
        WEFT_RETURN_IF_ERROR(TrainSteps(*context, setup, rank, 0, 3));
        WEFT_ASSIGN_OR_RETURN(const weft_shard_state_scalars_t right, context->state().Scalars());
        const auto expect = [&](auto field, auto number, const char* needle) {
          weft_shard_state_scalars_t wrong = right;
          wrong.*field = number;
          const absl::Status status = context->state().SetScalars(wrong);
          EXPECT_EQ(ResultOf(status), WEFT_INVALID_ARGUMENT);
          EXPECT_THAT(std::string(status.message()), HasSubstr(needle));
        };
        using Scalars = weft_shard_state_scalars_t;
        expect(&Scalars::steps_begun, -1, "steps_begun is -1");
        expect(&Scalars::train_steps_begun, -2, "train_steps_begun is -2");
        expect(&Scalars::update_count, -3, "update_count is -3");
        expect(&Scalars::nonfinite_steps, -4, "nonfinite_steps is -4");
        expect(&Scalars::loss_scale_good_steps, -5, "loss_scale_good_steps is -5");
        expect(&Scalars::loss_scale_overflows_left, -6, "loss_scale_overflows_left is -6");
        expect(&Scalars::loss_scale, 0.0, "loss_scale is 0");
        expect(&Scalars::loss_scale, std::numeric_limits<double>::quiet_NaN(), "loss_scale is nan");
        expect(&Scalars::loss_scale, 128.0, "from 1 to 64");
        expect(&Scalars::loss_scale, 0.5, "from 1 to 64");
        WEFT_ASSIGN_OR_RETURN(const weft_shard_state_scalars_t still, context->state().Scalars());
        EXPECT_EQ(std::memcmp(&still, &right, sizeof(right)), 0) << "nothing was changed";

        WEFT_ASSIGN_OR_RETURN(auto plain, MakeContext(group));
        WEFT_RETURN_IF_ERROR(AddUnitWithParam(*plain, "a", {16}).status());
        WEFT_RETURN_IF_ERROR(plain->Finalize().status());
        WEFT_ASSIGN_OR_RETURN(weft_shard_state_scalars_t none, plain->state().Scalars());
        EXPECT_EQ(none.loss_scale, 1);
        none.steps_begun = 12;
        WEFT_RETURN_IF_ERROR(plain->state().SetScalars(none));
        const absl::Status status = plain->state().SetScalars(right);
        EXPECT_EQ(ResultOf(status), WEFT_INVALID_ARGUMENT);
        EXPECT_THAT(std::string(status.message()), HasSubstr("no optimizer"));
        WEFT_ASSIGN_OR_RETURN(none, plain->state().Scalars());
        EXPECT_EQ(none.steps_begun, 12);
        return absl::OkStatus();
      }));
}

TEST(StateCalls, GivesAStaticLossScaleAnotherValue) {
  StateCase setup{.ranks = 2, .optimizer = StateOptimizer(WEFT_OPTIMIZER_SGD), .infinite = {1}};
  setup.optimizer.dynamic_scale = false;
  setup.optimizer.static_scale = 512;
  ExpectAllOk(RunRanks(
      GroupKind::kLocal, 2, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(auto context, MakeTrained(group, setup));
        WEFT_ASSIGN_OR_RETURN(weft_shard_state_scalars_t scalars, context->state().Scalars());
        EXPECT_EQ(scalars.loss_scale, 512);
        scalars.loss_scale = 3;
        WEFT_RETURN_IF_ERROR(context->state().SetScalars(scalars));
        WEFT_RETURN_IF_ERROR(TrainSteps(*context, setup, rank, 0, 3));
        WEFT_ASSIGN_OR_RETURN(const double scale, context->optimizer().LossScale());
        EXPECT_EQ(scale, 3) << "overflows do not change it";
        return absl::OkStatus();
      }));
}

TEST(StateCalls, IsNotThereOnADryMesh) {
  auto mesh = Mesh::CreateDry({{"data", 4}}, 0);
  ASSERT_TRUE(mesh.ok());
  auto context = Context::Create(*std::move(mesh), {});
  ASSERT_TRUE(context.ok());
  ASSERT_TRUE(AddUnitWithParam(**context, "a", {16}).ok());
  StateAccess& state = (*context)->state();
  for (const absl::Status& status :
       {state.Part(0, WEFT_SHARD_STATE_VALUE).status(), state.Scalars().status(),
        state.SetScalars({}), state.Written(WEFT_SHARD_STATE_ALL)}) {
    EXPECT_EQ(ResultOf(status), WEFT_INVALID_USAGE) << status.message();
  }
}

}  // namespace
}  // namespace weft::state_calls_test
