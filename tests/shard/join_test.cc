// Ranks that run out of data before others: the steps go on, with gradients of zero from them.
#include <algorithm>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/text.h"
#include "gtest/gtest.h"
#include "tests/shard/exact_model.h"
#include "tests/shard/ranks.h"
#include "tests/shard/small_model.h"

namespace weft::join_test {
namespace {

constexpr weft_shard_preset_t kPresets[] = {WEFT_SHARD_NO_SHARD,   WEFT_SHARD_ZERO1,
                                            WEFT_SHARD_ZERO2,      WEFT_SHARD_GRAD_OP,
                                            WEFT_SHARD_FULL_SHARD, WEFT_SHARD_HPZ};

// Rank r of n has data for 2 + (r * 3) % n steps.
int StepsOf(int rank, int ranks) {
  return 2 + (rank * 3) % ranks;
}

int MostSteps(int ranks) {
  int most = 0;
  for (int rank = 0; rank < ranks; ++rank)
    most = std::max(most, StepsOf(rank, ranks));
  return most;
}

int ActiveIn(int step, int ranks) {
  int active = 0;
  for (int rank = 0; rank < ranks; ++rank)
    active += StepsOf(rank, ranks) > step ? 1 : 0;
  return active;
}

absl::StatusOr<std::unique_ptr<Context>> MakeJoinable(std::shared_ptr<ProcessGroup> group,
                                                      weft_shard_preset_t preset,
                                                      weft_shard_accumulation_t accumulation,
                                                      int microbatches) {
  const ContextOptions options{
      .accumulation = accumulation, .microbatches = microbatches, .uneven = true};
  std::vector<int> axes;
  if (preset == WEFT_SHARD_HPZ || preset == WEFT_SHARD_HYBRID_SHARD) axes = {group->size() / 2, 2};
  return MakeContext(std::move(group), options, axes);
}

// The calls of a step's micro-batches, in this order, without gradients.
absl::Status Walk(Context& context, const Script& script) {
  using Kind = Event::Kind;
  int microbatch = 0;
  for (const auto& [kind, index] : script) {
    absl::Status done;
    if (kind == Kind::kMicrobatchBegin) done = context.MicrobatchBegin(microbatch++, index == 1);
    if (kind == Kind::kPreForward) done = context.PreForward(index);
    if (kind == Kind::kPostForward) done = context.PostForward(index);
    if (kind == Kind::kPreBackward) done = context.PreBackward(index);
    if (kind == Kind::kPostBackward) done = context.PostBackward(index);
    if (kind == Kind::kMicrobatchEnd) done = context.MicrobatchEnd();
    WEFT_RETURN_IF_ERROR(done);
  }
  return absl::OkStatus();
}

void ExpectTraining(weft_shard_preset_t preset, int ranks, int microbatches,
                    weft_shard_accumulation_t accumulation) {
  SCOPED_TRACE(StrCat(PresetName(preset), ", ", ranks, " ranks"));
  const std::vector<ModelParam> model = SmallModel();
  Scenario scenario{.ranks = ranks,
                    .microbatches = microbatches,
                    .missing_percent = 10,
                    .accumulation = accumulation};
  scenario.data = [ranks, microbatches](int step, int rank) {
    return step >= StepsOf(rank, ranks) ? 0 : microbatches;
  };
  const auto body = [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
    WEFT_ASSIGN_OR_RETURN(auto context, MakeJoinable(group, preset, accumulation, microbatches));
    WEFT_RETURN_IF_ERROR(Declare(*context, model, PlacementOf(preset)));
    WEFT_RETURN_IF_ERROR(context->Finalize().status());
    for (int step = 0;; ++step) {
      if (step < StepsOf(rank, ranks)) {
        WEFT_RETURN_IF_ERROR(RunStep(*context, model, scenario, rank, step).status());
      } else {
        WEFT_RETURN_IF_ERROR(context->StepBegin(WEFT_SHARD_TRAIN, 0));
        WEFT_ASSIGN_OR_RETURN(const int active, context->Join());
        EXPECT_EQ(active, ActiveIn(step, ranks)) << "step " << step;
        if (active == 0) {
          EXPECT_EQ(step, MostSteps(ranks));
          break;
        }
        WEFT_RETURN_IF_ERROR(context->Finish().status());
      }
      WEFT_RETURN_IF_ERROR(ExpectOwn(*context, model, ExpectedGradients(model, scenario, step)));
      WEFT_RETURN_IF_ERROR(context->Updated());
      WEFT_RETURN_IF_ERROR(context->StepEnd());
    }
    // The context goes on: another epoch.
    WEFT_RETURN_IF_ERROR(RunStep(*context, model, scenario, rank, 0).status());
    WEFT_RETURN_IF_ERROR(ExpectOwn(*context, model, ExpectedGradients(model, scenario, 0)));
    return context->StepEnd();
  };
  ExpectAllOk(RunRanks(GroupKind::kLocal, ranks, body));
}

TEST(Join, RanksWithoutDataGiveZeros) {
  for (const weft_shard_preset_t preset : kPresets) {
    for (const int ranks : {1, 2, 3, 4, 5}) {
      if (preset == WEFT_SHARD_HPZ && ranks % 2 != 0) continue;
      ExpectTraining(preset, ranks, 1, WEFT_SHARD_LOCAL_THEN_REDUCE);
    }
  }
}

TEST(Join, TakesThePlaceOfAllMicrobatches) {
  for (const weft_shard_preset_t preset : kPresets) {
    for (const auto accumulation : {WEFT_SHARD_LOCAL_THEN_REDUCE, WEFT_SHARD_REDUCE_EVERY})
      ExpectTraining(preset, 4, 3, accumulation);
  }
}

// The data of a rank may end between two micro-batches; it counts as one with data, and its gradients so far count.
TEST(Join, TakesThePlaceOfTheMicrobatchesThatFollow) {
  constexpr int kMicrobatches = 3;
  const std::vector<ModelParam> model = SmallModel();
  for (const weft_shard_preset_t preset : kPresets) {
    for (const auto accumulation : {WEFT_SHARD_LOCAL_THEN_REDUCE, WEFT_SHARD_REDUCE_EVERY}) {
      SCOPED_TRACE(StrCat(PresetName(preset), ", accumulation ", static_cast<int>(accumulation)));
      Scenario scenario{.ranks = 4,
                        .microbatches = kMicrobatches,
                        .missing_percent = 10,
                        .accumulation = accumulation};
      // Rank 3 has all data; rank 0 none in steps 0 and 4.
      scenario.data = [](int step, int rank) {
        return rank == 3 ? kMicrobatches : (rank + step * 3) % (kMicrobatches + 1);
      };
      const auto body = [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(auto context,
                              MakeJoinable(group, preset, accumulation, kMicrobatches));
        WEFT_RETURN_IF_ERROR(Declare(*context, model, PlacementOf(preset)));
        WEFT_RETURN_IF_ERROR(context->Finalize().status());
        for (int step = 0; step < 5; ++step) {
          WEFT_ASSIGN_OR_RETURN(const weft_shard_step_result_t result,
                                RunStep(*context, model, scenario, rank, step));
          int active = 0;
          for (int other = 0; other < scenario.ranks; ++other)
            active += scenario.data(step, other) > 0 ? 1 : 0;
          EXPECT_EQ(result.active_ranks, active) << step;
          WEFT_RETURN_IF_ERROR(
              ExpectOwn(*context, model, ExpectedGradients(model, scenario, step)));
          WEFT_RETURN_IF_ERROR(context->Updated());
          WEFT_RETURN_IF_ERROR(context->StepEnd());
        }
        return absl::OkStatus();
      };
      ExpectAllOk(RunRanks(GroupKind::kLocal, scenario.ranks, body));
    }
  }
}

// Sums over ranks, and a factor of one over the ranks with data: the average of these.
TEST(Join, AveragesByRanksWithDataAreAFactorOfTheUpdate) {
  constexpr int kRanks = 3;
  const auto body = [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
    WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group, {.average = false, .uneven = true}));
    WEFT_RETURN_IF_ERROR(context->SetOptimizer({.kind = WEFT_OPTIMIZER_SGD}));
    WEFT_RETURN_IF_ERROR(
        AddUnitWithParam(*context, "u", {300}, WEFT_FLOAT32, /*frozen=*/false).status());
    WEFT_RETURN_IF_ERROR(context->Finalize().status());
    float expected = 0;
    for (int absent = 0; absent <= kRanks; ++absent) {
      WEFT_RETURN_IF_ERROR(context->StepBegin(WEFT_SHARD_TRAIN, 0));
      if (rank == absent) {
        WEFT_RETURN_IF_ERROR(context->Join().status());
      } else {
        WEFT_RETURN_IF_ERROR(context->MicrobatchBegin(0, true));
        WEFT_RETURN_IF_ERROR(context->PreForward(0));
        WEFT_RETURN_IF_ERROR(context->PostForward(0));
        WEFT_RETURN_IF_ERROR(context->PreBackward(0));
        const std::vector<float> gradient(300, static_cast<float>(rank + 1));
        WEFT_RETURN_IF_ERROR(context->GradReady(0, gradient.data()));
        WEFT_RETURN_IF_ERROR(context->PostBackward(0));
        WEFT_RETURN_IF_ERROR(context->MicrobatchEnd());
      }
      WEFT_ASSIGN_OR_RETURN(const weft_shard_step_result_t result, context->Finish());
      const int active = absent == kRanks ? 3 : 2;
      EXPECT_EQ(result.active_ranks, active);
      weft_shard_update_t update = {.struct_size = sizeof(update), .learning_rate = 1};
      update.gradient_factor = 1.0 / result.active_ranks;
      WEFT_RETURN_IF_ERROR(context->OptimizerStep(update).status());
      WEFT_RETURN_IF_ERROR(context->StepEnd());
      // 1 + 2 + 3 without the absent one's.
      expected -=
          static_cast<float>(absent == kRanks ? 6 : 5 - absent) / static_cast<float>(active);
      std::vector<float> values(300);
      WEFT_RETURN_IF_ERROR(context->Read(0, values.data()));
      EXPECT_NEAR(values[0], expected, 1e-6);
      EXPECT_NEAR(values[299], expected, 1e-6);
    }
    return absl::OkStatus();
  };
  ExpectAllOk(RunRanks(GroupKind::kLocal, kRanks, body));
}

// A step that has had as many micro-batches as the last one of its kind: nobody knows what follows.
TEST(Join, IsRefusedAfterTheLastMicrobatchThatIsKnown) {
  const auto body = [&](int, std::shared_ptr<ProcessGroup> group) -> absl::Status {
    WEFT_ASSIGN_OR_RETURN(auto context,
                          MakeJoinable(group, WEFT_SHARD_ZERO1, WEFT_SHARD_LOCAL_THEN_REDUCE, 1));
    WEFT_RETURN_IF_ERROR(Declare(*context, SmallModel(), PlacementOf(WEFT_SHARD_ZERO1)));
    WEFT_RETURN_IF_ERROR(context->Finalize().status());
    WEFT_RETURN_IF_ERROR(context->StepBegin(WEFT_SHARD_TRAIN, 0));
    WEFT_RETURN_IF_ERROR(context->MicrobatchBegin(0, false));
    WEFT_RETURN_IF_ERROR(context->MicrobatchEnd());
    const absl::Status refused = context->Join().status();
    EXPECT_EQ(ResultOf(refused), WEFT_BAD_STATE);
    EXPECT_NE(refused.message().find("has made 1 micro-batches"), absl::string_view::npos)
        << refused;
    WEFT_RETURN_IF_ERROR(context->MicrobatchBegin(1, true));
    WEFT_RETURN_IF_ERROR(context->MicrobatchEnd());
    const absl::Status late = context->Join().status();
    EXPECT_EQ(ResultOf(late), WEFT_BAD_STATE);
    EXPECT_NE(late.message().find("of those that follow"), absl::string_view::npos) << late;
    WEFT_RETURN_IF_ERROR(context->Finish().status());
    return context->StepEnd();
  };
  ExpectAllOk(RunRanks(GroupKind::kLocal, 1, body));
}

// The order of calls is not the declared one, and one unit is used twice: what the others did before is done.
TEST(Join, MakesTheCallsOfTheLastStepOfItsKind) {
  const Script odd = ScriptOf({2, 0, 1, 0}, {1, 0, 2, 0});
  const Script evaluation = ScriptOf({0, 2, 1}, {});
  const auto body = [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
    WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group, {.uneven = true}));
    for (int unit = 0; unit < 3; ++unit) {
      WEFT_ASSIGN_OR_RETURN(
          const int begun,
          context->BeginUnit(StrCat("unit", unit), PlacementOf(WEFT_SHARD_FULL_SHARD)));
      const int64_t count = 300 + unit;
      WEFT_RETURN_IF_ERROR(
          context->AddParam(begun, StrCat("p", unit), &count, 1, WEFT_FLOAT32).status());
      WEFT_RETURN_IF_ERROR(context->SealUnit(begun));
    }
    WEFT_RETURN_IF_ERROR(context->Finalize().status());
    const auto step = [&](weft_shard_mode_t mode, uint64_t tag, const Script& script,
                          bool has_data) -> absl::StatusOr<weft_shard_step_result_t> {
      WEFT_RETURN_IF_ERROR(context->StepBegin(mode, tag));
      if (has_data) {
        WEFT_RETURN_IF_ERROR(Walk(*context, script));
      } else {
        WEFT_ASSIGN_OR_RETURN(const int active, context->Join());
        EXPECT_EQ(active, 2);
      }
      WEFT_ASSIGN_OR_RETURN(const weft_shard_step_result_t result, context->Finish());
      WEFT_RETURN_IF_ERROR(context->StepEnd());
      return result;
    };
    for (int i = 0; i < 4; ++i) {
      const bool has_data = i < 2 || rank > 0;
      WEFT_ASSIGN_OR_RETURN(const auto trained, step(WEFT_SHARD_TRAIN, 7, odd, has_data));
      EXPECT_EQ(trained.replayed, i == 0 ? 0 : 1) << i;
      WEFT_RETURN_IF_ERROR(step(WEFT_SHARD_EVAL, 0, evaluation, has_data).status());
    }
    return absl::OkStatus();
  };
  ExpectAllOk(RunRanks(GroupKind::kLocal, 3, body));
}

TEST(Join, NamesTheRankThatBeganAnotherKindOfStep) {
  const auto body = [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
    WEFT_ASSIGN_OR_RETURN(
        auto context, MakeJoinable(group, WEFT_SHARD_FULL_SHARD, WEFT_SHARD_LOCAL_THEN_REDUCE, 1));
    WEFT_RETURN_IF_ERROR(Declare(*context, SmallModel(), PlacementOf(WEFT_SHARD_FULL_SHARD)));
    WEFT_RETURN_IF_ERROR(context->Finalize().status());
    WEFT_RETURN_IF_ERROR(context->StepBegin(WEFT_SHARD_TRAIN, rank == 1 ? 5 : 0));
    return rank == 2 ? context->Join().status() : context->MicrobatchBegin(0, true);
  };
  for (const absl::Status& status : RunRanks(GroupKind::kLocal, 3, body)) {
    EXPECT_EQ(ResultOf(status), WEFT_MISMATCH);
    EXPECT_NE(
        status.message().find("rank 1 began a step of TRAIN, tag 5, rank 0 one of TRAIN, tag 0"),
        absl::string_view::npos)
        << status;
  }
}

TEST(Join, IsRefusedWhereItIsNotLegal) {
  const auto body = [&](int, std::shared_ptr<ProcessGroup> group) -> absl::Status {
    WEFT_ASSIGN_OR_RETURN(auto even, MakeContext(group));
    WEFT_RETURN_IF_ERROR(Declare(*even, SmallModel()));
    WEFT_RETURN_IF_ERROR(even->Finalize().status());
    WEFT_RETURN_IF_ERROR(even->StepBegin(WEFT_SHARD_TRAIN, 0));
    const absl::Status unexpected = even->Join().status();
    EXPECT_EQ(ResultOf(unexpected), WEFT_BAD_STATE);
    EXPECT_NE(unexpected.message().find("set uneven"), absl::string_view::npos) << unexpected;

    WEFT_ASSIGN_OR_RETURN(auto context,
                          MakeJoinable(group, WEFT_SHARD_ZERO1, WEFT_SHARD_LOCAL_THEN_REDUCE, 1));
    WEFT_RETURN_IF_ERROR(Declare(*context, SmallModel(), PlacementOf(WEFT_SHARD_ZERO1)));
    WEFT_RETURN_IF_ERROR(context->Finalize().status());
    EXPECT_EQ(ResultOf(context->Join().status()), WEFT_BAD_STATE);
    WEFT_RETURN_IF_ERROR(context->StepBegin(WEFT_SHARD_TRAIN, 0));
    WEFT_RETURN_IF_ERROR(context->MicrobatchBegin(0, true));
    EXPECT_EQ(ResultOf(context->Join().status()), WEFT_BAD_STATE);
    return absl::OkStatus();
  };
  ExpectAllOk(RunRanks(GroupKind::kLocal, 1, body));
}

}  // namespace
}  // namespace weft::join_test
