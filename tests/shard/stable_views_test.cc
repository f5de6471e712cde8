// With stable views a unit's params are at one address whenever they are unsharded; what comes of a step is the same as where they move.
#include "tests/shard/stable_views.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/text.h"
#include "gtest/gtest.h"
#include "shard/layout/placement.h"
#include "tests/shard/exact_model.h"
#include "tests/shard/ranks.h"
#include "tests/shard/trained_model.h"

namespace weft::stable_views_test {
namespace {

using Kind = Event::Kind;

constexpr weft_shard_views_t kStable[] = {WEFT_SHARD_VIEWS_STABLE, WEFT_SHARD_VIEWS_APART};

// HYBRID_SHARD and HPZ need two axes.
std::vector<int> AxesOf(weft_shard_preset_t preset, int ranks) {
  const bool inner = preset == WEFT_SHARD_HYBRID_SHARD || preset == WEFT_SHARD_HPZ;
  return inner ? std::vector<int>{ranks % 2 == 0 ? ranks / 2 : ranks, ranks % 2 == 0 ? 2 : 1}
               : std::vector<int>{};
}

// Forward, and backward with every unit recomputed in it.
Script Recomputed(int units) {
  Script script = {{Kind::kMicrobatchBegin, 1}};
  for (int unit = 0; unit < units; ++unit)
    script = Joined({script, {{Kind::kPreForward, unit}, {Kind::kPostForward, unit}}});
  for (int unit = units; unit-- > 0;) {
    script = Joined({script,
                     {{Kind::kPreBackward, unit},
                      {Kind::kPreForward, unit},
                      {Kind::kPostForward, unit},
                      {Kind::kPostBackward, unit}}});
  }
  return Joined({script, {{Kind::kMicrobatchEnd, 0}, {Kind::kFinish, 0}}});
}

// Each unit by unshard_start too, before forward uses it.
Script Unsharded(int units) {
  Script script = {{Kind::kMicrobatchBegin, 1}};
  for (int unit = 0; unit < units; ++unit) {
    script = Joined({script,
                     {{Kind::kUnshard, unit},
                      {Kind::kReshard, unit},
                      {Kind::kPreForward, unit},
                      {Kind::kPostForward, unit}}});
  }
  return Joined({script, {{Kind::kMicrobatchEnd, 0}, {Kind::kFinish, 0}}});
}

// Steps that the plan expects.
absl::Status RunPlanned(ExactModel& model, int units) {
  const std::vector<int> forward = Declared(units);
  const std::vector<int> backward(forward.rbegin(), forward.rend());
  for (int round = 0; round < 2; ++round) {
    WEFT_RETURN_IF_ERROR(model.Train(ScriptOf(forward, backward)).status());
    WEFT_RETURN_IF_ERROR(model.Eval(ScriptOf(forward, {})).status());
  }
  return model.ExpectWeights();
}

// Steps of several kinds, several times, in orders that are not those of the plan.
absl::Status RunProgram(ExactModel& model, int units) {
  const auto count = static_cast<size_t>(units);
  const std::vector<int> forward = Declared(units);
  const std::vector<int> backward(forward.rbegin(), forward.rend());
  for (int round = 0; round < 2; ++round) {
    WEFT_RETURN_IF_ERROR(model.Train(ScriptOf(forward, backward)).status());
    WEFT_RETURN_IF_ERROR(model.Train(ScriptOf(forward, backward, 2)).status());
    WEFT_RETURN_IF_ERROR(model.Eval(ScriptOf(forward, {})).status());
    WEFT_RETURN_IF_ERROR(model.Eval(ScriptOf(backward, {}, 1, false), 4).status());
    WEFT_RETURN_IF_ERROR(model.Train(ScriptOf(Shuffled(count, 3), Shuffled(count, 4)), 1).status());
    WEFT_RETURN_IF_ERROR(model.Train(Recomputed(units), 2).status());
    WEFT_RETURN_IF_ERROR(model.Eval(Unsharded(units), 5).status());
    // Another order with the tag of the first.
    WEFT_RETURN_IF_ERROR(model.Train(ScriptOf(backward, Shuffled(count, 5))).status());
  }
  return model.ExpectWeights();
}

TEST(StableViews, HaveOneAddressInAllStepsOfEveryPreset) {
  constexpr int kUnits = 5;
  for (int preset = WEFT_SHARD_NO_SHARD; preset <= WEFT_SHARD_FRACTION; ++preset) {
    for (const weft_shard_views_t views : kStable) {
      for (const int ranks : {1, 2, 3, 4}) {
        // What is not sharded does not depend on ranks.
        if (preset < WEFT_SHARD_GRAD_OP && ranks != 2) continue;
        // Every other preset has either with two numbers of ranks.
        if ((preset + ranks + (views == WEFT_SHARD_VIEWS_APART ? 1 : 0)) % 2 != 0) continue;
        SCOPED_TRACE(StrCat("preset ", preset, " ", NameOf(views), ", ", ranks, " ranks"));
        const auto of = static_cast<weft_shard_preset_t>(preset);
        ExpectAllOk(
            RunRanks(GroupKind::kLocal, ranks, [&](int rank, std::shared_ptr<ProcessGroup> group) {
              const auto run = [&]() -> absl::Status {
                WEFT_ASSIGN_OR_RETURN(auto context,
                                      MakeContext(group, OptionsOf(views), AxesOf(of, ranks)));
                ExactModel model(*context, ExactUnits(kUnits, of), rank, ranks);
                Addresses addresses;
                addresses.Watch(model);
                WEFT_RETURN_IF_ERROR(model.Finalize().status());
                WEFT_RETURN_IF_ERROR(RunProgram(model, kUnits));
                EXPECT_EQ(addresses.moved(), 0);
                return absl::OkStatus();
              };
              return run();
            }));
      }
    }
  }
}

TEST(StableViews, AreNotWhatMovingOnesAre) {
  ExpectAllOk(RunRanks(
      GroupKind::kLocal, 2, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group, OptionsOf(WEFT_SHARD_VIEWS_MOVE)));
        ExactModel model(*context, ExactUnits(6, WEFT_SHARD_FULL_SHARD), rank, 2);
        Addresses addresses;
        addresses.Watch(model);
        WEFT_RETURN_IF_ERROR(model.Finalize().status());
        WEFT_RETURN_IF_ERROR(RunProgram(model, 6));
        EXPECT_GT(addresses.moved(), 0);
        return absl::OkStatus();
      }));
}

// A step of the plan is replayed, and takes what the plan says, with any prefetch.
TEST(StableViews, TakeWhatThePlanSays) {
  for (int preset = WEFT_SHARD_GRAD_OP; preset <= WEFT_SHARD_FRACTION; ++preset) {
    for (const weft_shard_views_t views :
         {WEFT_SHARD_VIEWS_MOVE, WEFT_SHARD_VIEWS_STABLE, WEFT_SHARD_VIEWS_APART}) {
      for (const int prefetch : {0, 2}) {
        SCOPED_TRACE(StrCat("preset ", preset, " ", NameOf(views), ", prefetch ", prefetch));
        const auto of = static_cast<weft_shard_preset_t>(preset);
        const int ranks = AxesOf(of, 4).empty() ? 2 : 4;
        ContextOptions options = OptionsOf(views);
        options.prefetch = prefetch;
        const auto body = [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
          WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group, options, AxesOf(of, ranks)));
          ExactModel model(*context, ExactUnits(5, of), rank, ranks);
          WEFT_ASSIGN_OR_RETURN(const weft_shard_plan_t plan, model.Finalize());
          EXPECT_EQ(plan.prefetch, prefetch);
          EXPECT_EQ(context->pool_bytes(), plan.pool_bytes);
          EXPECT_LE(plan.moving_pool_bytes, plan.pool_bytes);
          if (views == WEFT_SHARD_VIEWS_MOVE) {
            EXPECT_EQ(plan.moving_pool_bytes, plan.pool_bytes);
          }
          for (int step = 0; step < 2; ++step) {
            WEFT_ASSIGN_OR_RETURN(const weft_shard_step_result_t result,
                                  model.Train(ScriptOf({0, 1, 2, 3, 4}, {4, 3, 2, 1, 0})));
            EXPECT_EQ(result.replayed, 1);
            EXPECT_EQ(result.pool_bytes, plan.pool_bytes);
          }
          WEFT_ASSIGN_OR_RETURN(const weft_shard_step_result_t eval,
                                model.Eval(ScriptOf({0, 1, 2, 3, 4}, {})));
          EXPECT_EQ(eval.replayed, 1);
          EXPECT_EQ(eval.pool_bytes, plan.pool_bytes);
          EXPECT_EQ(context->spilled_bytes_max(), 0u);
          return model.ExpectWeights();
        };
        ExpectAllOk(RunRanks(GroupKind::kLocal, ranks, body));
      }
    }
  }
}

TEST(StableViews, AreTheSameOnAllRanks) {
  const auto statuses = RunRanks(
      GroupKind::kLocal, 3, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        const weft_shard_views_t views =
            rank == 1 ? WEFT_SHARD_VIEWS_APART : WEFT_SHARD_VIEWS_STABLE;
        WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group, OptionsOf(views)));
        ExactModel model(*context, ExactUnits(3, WEFT_SHARD_FULL_SHARD), rank, 3);
        return model.Finalize().status();
      });
  for (const absl::Status& status : statuses) {
    EXPECT_EQ(ResultOf(status), WEFT_MISMATCH) << status;
    for (const char* const part : {"rank 1", "stable_views APART", "stable_views STABLE"})
      EXPECT_NE(status.message().find(part), absl::string_view::npos) << status;
  }
}

// Of so many micro-batches a schedule has a few.
TEST(StableViews, OfManyMicrobatchesAreReplayed) {
  const std::vector<int> forward = Declared(5);
  const std::vector<int> backward(forward.rbegin(), forward.rend());
  for (const weft_shard_preset_t preset : {WEFT_SHARD_FULL_SHARD, WEFT_SHARD_GRAD_OP}) {
    const auto body = [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
      ContextOptions options = OptionsOf(WEFT_SHARD_VIEWS_STABLE);
      options.microbatches = 30;
      options.accumulation = WEFT_SHARD_REDUCE_EVERY;
      WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group, options));
      ExactModel model(*context, ExactUnits(5, preset), rank, 2);
      Addresses addresses;
      addresses.Watch(model);
      WEFT_ASSIGN_OR_RETURN(const weft_shard_plan_t plan, model.Finalize());
      WEFT_ASSIGN_OR_RETURN(const weft_shard_step_result_t result,
                            model.Train(ScriptOf(forward, backward, 30)));
      EXPECT_EQ(result.replayed, 1);
      EXPECT_EQ(result.pool_bytes, plan.pool_bytes);
      // Another number of them, in another order, is learnt and keeps to the places.
      for (int step = 0; step < 2; ++step) {
        WEFT_ASSIGN_OR_RETURN(const weft_shard_step_result_t learnt,
                              model.Train(ScriptOf(backward, Shuffled(5, 2), 25), 1));
        EXPECT_EQ(learnt.replayed, step);
      }
      EXPECT_EQ(addresses.moved(), 0);
      return model.ExpectWeights();
    };
    ExpectAllOk(RunRanks(GroupKind::kLocal, 2, body));
  }
}

// Every other unit shares a place, and gradients have their own: two units of params and two of gradients, where three move.
TEST(StableViews, CostOneUnitWithFullShard) {
  const auto pool = [](weft_shard_views_t views, weft_shard_plan_t* plan) {
    ExpectAllOk(RunRanks(
        GroupKind::kLocal, 2, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
          WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group, OptionsOf(views)));
          ExactModel model(
              *context,
              std::vector<ExactUnit>(
                  8, {.placement = PlacementOf(WEFT_SHARD_FULL_SHARD), .counts = {256}}),
              rank, 2);
          WEFT_ASSIGN_OR_RETURN(const weft_shard_plan_t made, model.Finalize());
          if (rank == 0) *plan = made;
          return absl::OkStatus();
        }));
  };
  weft_shard_plan_t plan = {};
  pool(WEFT_SHARD_VIEWS_STABLE, &plan);
  EXPECT_EQ(plan.pool_bytes, 4 * plan.largest_unit_bytes);
  EXPECT_EQ(plan.moving_pool_bytes, 3 * plan.largest_unit_bytes);
  pool(WEFT_SHARD_VIEWS_APART, &plan);
  EXPECT_EQ(plan.pool_bytes, 10 * plan.largest_unit_bytes);
  EXPECT_EQ(plan.moving_pool_bytes, 3 * plan.largest_unit_bytes);
}

TEST(StableViews, BeyondTheBudgetAreRefusedWithBothPrices) {
  ExpectAllOk(RunRanks(
      GroupKind::kLocal, 2, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        ContextOptions options = OptionsOf(WEFT_SHARD_VIEWS_APART);
        options.budget_bytes = 4 * 1024;
        WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group, options));
        const std::vector<ExactUnit> units(
            8, {.placement = PlacementOf(WEFT_SHARD_FULL_SHARD), .counts = {256}});
        ExactModel model(*context, units, rank, 2);
        const absl::Status refused = model.Finalize().status();
        EXPECT_EQ(ResultOf(refused), WEFT_OUT_OF_MEMORY) << refused;
        EXPECT_NE(refused.message().find("10240 bytes with stable views, the budget is 4096"),
                  absl::string_view::npos)
            << refused;
        EXPECT_NE(refused.message().find("it would need 3072"), absl::string_view::npos) << refused;
        options.views = WEFT_SHARD_VIEWS_STABLE;
        WEFT_ASSIGN_OR_RETURN(auto shared, MakeContext(group, options));
        ExactModel fits(*shared, units, rank, 2);
        WEFT_ASSIGN_OR_RETURN(const weft_shard_plan_t plan, fits.Finalize());
        EXPECT_EQ(plan.pool_bytes, options.budget_bytes);
        EXPECT_EQ(plan.prefetch, 1);
        return RunPlanned(fits, 8);
      }));
}

// FRACTION keeps fewer units where places cost more, and never more than the budget allows.
TEST(StableViews, OfFractionKeepToTheBudget) {
  for (size_t units = 1; units <= 12; ++units) {
    ExpectAllOk(RunRanks(
        GroupKind::kLocal, 2, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
          ContextOptions options = OptionsOf(WEFT_SHARD_VIEWS_STABLE);
          options.budget_bytes = units * 1024;
          WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group, options));
          ExactModel model(*context,
                           std::vector<ExactUnit>(
                               8, {.placement = PlacementOf(WEFT_SHARD_FRACTION), .counts = {256}}),
                           rank, 2);
          Addresses addresses;
          addresses.Watch(model);
          const absl::StatusOr<weft_shard_plan_t> plan = model.Finalize();
          if (!plan.ok()) {
            EXPECT_EQ(ResultOf(plan.status()), WEFT_OUT_OF_MEMORY) << plan.status();
            EXPECT_LT(units, 4u);
            return absl::OkStatus();
          }
          EXPECT_LE(plan->pool_bytes, options.budget_bytes);
          WEFT_RETURN_IF_ERROR(RunPlanned(model, 8));
          EXPECT_EQ(addresses.moved(), 0);
          return absl::OkStatus();
        }));
  }
}

// Two units that the plan never has unsharded together: the first and the third of a chain.
struct Meeting {
  std::unique_ptr<Context> context;
  std::unique_ptr<ExactModel> model;
};

absl::StatusOr<Meeting> MakeMeeting(std::shared_ptr<ProcessGroup> group, int rank, int ranks,
                                    weft_shard_views_t views) {
  Meeting made;
  WEFT_ASSIGN_OR_RETURN(made.context, MakeContext(std::move(group), OptionsOf(views)));
  made.model = std::make_unique<ExactModel>(*made.context, ExactUnits(4, WEFT_SHARD_FULL_SHARD),
                                            rank, ranks);
  WEFT_RETURN_IF_ERROR(made.model->Finalize().status());
  return made;
}

TEST(StableViews, RefuseTheUseOfAUnitWhosePlaceAnotherOneIsUsing) {
  for (const int ranks : {1, 2, 3}) {
    ExpectAllOk(RunRanks(
        GroupKind::kLocal, ranks,
        [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
          WEFT_ASSIGN_OR_RETURN(Meeting made,
                                MakeMeeting(group, rank, ranks, WEFT_SHARD_VIEWS_STABLE));
          Context& context = *made.context;
          Addresses addresses;
          addresses.Watch(*made.model);
          // All have their addresses from here on.
          WEFT_RETURN_IF_ERROR(made.model->Train(ScriptOf({0, 1, 2, 3}, {3, 2, 1, 0})).status());
          WEFT_RETURN_IF_ERROR(context.StepBegin(WEFT_SHARD_EVAL, 7));
          WEFT_RETURN_IF_ERROR(context.MicrobatchBegin(0, true));
          WEFT_RETURN_IF_ERROR(context.PreForward(0));
          for (const auto& call : {context.PreForward(2), context.UnshardStart(2)}) {
            EXPECT_EQ(ResultOf(call), WEFT_BAD_STATE) << call;
            for (const char* const part : {"unit unit0 is in use", "unit unit2",
                                           "WEFT_SHARD_VIEWS_APART", "is not legal here"}) {
              EXPECT_NE(call.message().find(part), absl::string_view::npos) << call;
            }
          }
          WEFT_ASSIGN_OR_RETURN(const ParamView view, context.View(0));
          EXPECT_EQ(view.data, addresses.Of(0));
          // Nothing was lost: others go on, and so does it later.
          WEFT_RETURN_IF_ERROR(context.PreForward(1));
          WEFT_RETURN_IF_ERROR(context.PostForward(1));
          WEFT_RETURN_IF_ERROR(context.PostForward(0));
          WEFT_RETURN_IF_ERROR(context.PreForward(2));
          WEFT_RETURN_IF_ERROR(context.PostForward(2));
          WEFT_RETURN_IF_ERROR(context.MicrobatchEnd());
          WEFT_RETURN_IF_ERROR(context.Finish().status());
          WEFT_RETURN_IF_ERROR(context.StepEnd());
          WEFT_RETURN_IF_ERROR(RunProgram(*made.model, 4));
          EXPECT_EQ(addresses.moved(), 0);
          return absl::OkStatus();
        }));
  }
}

Script Nested(int root, const std::vector<int>& children) {
  Script script = {{Kind::kMicrobatchBegin, 1}, {Kind::kPreForward, root}};
  for (const int unit : children)
    script = Joined({script, {{Kind::kPreForward, unit}, {Kind::kPostForward, unit}}});
  script.push_back({Kind::kPostForward, root});
  script.push_back({Kind::kPreBackward, root});
  for (size_t i = children.size(); i-- > 0;)
    script =
        Joined({script, {{Kind::kPreBackward, children[i]}, {Kind::kPostBackward, children[i]}}});
  return Joined(
      {script, {{Kind::kPostBackward, root}, {Kind::kMicrobatchEnd, 0}, {Kind::kFinish, 0}}});
}

TEST(StableViews, ApartMayMeetAtAnyTime) {
  ExpectAllOk(RunRanks(
      GroupKind::kLocal, 3, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(Meeting made, MakeMeeting(group, rank, 3, WEFT_SHARD_VIEWS_APART));
        Addresses addresses;
        addresses.Watch(*made.model);
        WEFT_RETURN_IF_ERROR(made.model->Train(ScriptOf({0, 1, 2, 3}, {3, 2, 1, 0})).status());
        for (int step = 0; step < 3; ++step)
          WEFT_RETURN_IF_ERROR(made.model->Train(Nested(0, {1, 2, 3}), 1).status());
        WEFT_RETURN_IF_ERROR(RunProgram(*made.model, 4));
        EXPECT_EQ(addresses.moved(), 0);
        return absl::OkStatus();
      }));
}

// In a first step nobody knows the addresses of units that come later: those that meet the root get another one for good.
TEST(StableViews, OfAUnitThatMeetsAnotherBeforeItIsKnownAreElsewhere) {
  for (const int ranks : {1, 2, 3, 4}) {
    ExpectAllOk(RunRanks(GroupKind::kLocal, ranks,
                         [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
                           WEFT_ASSIGN_OR_RETURN(
                               Meeting made,
                               MakeMeeting(group, rank, ranks, WEFT_SHARD_VIEWS_STABLE));
                           Addresses addresses;
                           addresses.Watch(*made.model);
                           const size_t planned = made.context->pool_bytes();
                           int replayed = 0;
                           for (int step = 0; step < 3; ++step) {
                             WEFT_ASSIGN_OR_RETURN(const weft_shard_step_result_t result,
                                                   made.model->Train(Nested(0, {1, 2, 3})));
                             EXPECT_EQ(result.pool_bytes, made.context->pool_bytes());
                             replayed += result.replayed;
                           }
                           EXPECT_EQ(replayed, 2);
                           EXPECT_GT(made.context->pool_bytes(), planned);
                           WEFT_RETURN_IF_ERROR(RunProgram(*made.model, 4));
                           EXPECT_EQ(addresses.moved(), 0);
                           return absl::OkStatus();
                         }));
  }
}

// A unit that the hint leaves out may come at any time.
TEST(StableViews, OfAUnitThatTheHintLeavesOutAreItsOwn) {
  ExpectAllOk(RunRanks(
      GroupKind::kLocal, 2, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group, OptionsOf(WEFT_SHARD_VIEWS_STABLE)));
        WEFT_RETURN_IF_ERROR(context->builder().HintOrder({0, 1, 2}));
        ExactModel model(*context, ExactUnits(4, WEFT_SHARD_FULL_SHARD), rank, 2);
        Addresses addresses;
        addresses.Watch(model);
        WEFT_ASSIGN_OR_RETURN(const weft_shard_plan_t plan, model.Finalize());
        for (int step = 0; step < 3; ++step)
          WEFT_RETURN_IF_ERROR(model.Train(Nested(3, {0, 1, 2})).status());
        // Its gradient was not planned; its params were.
        EXPECT_EQ(context->pool_bytes() - plan.pool_bytes, plan.largest_unit_bytes);
        EXPECT_EQ(addresses.moved(), 0);
        return model.ExpectWeights();
      }));
}

// As an autograd: forward keeps the address, backward reads it. What is resharded meanwhile holds 0xff.
TEST(StableViews, KeptFromForwardHaveTheValuesInBackward) {
  for (const weft_shard_views_t views : kStable) {
    ExpectAllOk(RunRanks(
        GroupKind::kLocal, 2, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
          constexpr int kUnits = 7;
          WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group, OptionsOf(views)));
          ExactModel model(*context, ExactUnits(kUnits, WEFT_SHARD_FULL_SHARD), rank, 2);
          WEFT_RETURN_IF_ERROR(model.Finalize().status());
          for (uint64_t step = 0; step < 3; ++step) {
            std::vector<const float*> kept(kUnits);
            std::vector<std::vector<float>> values(kUnits);
            WEFT_RETURN_IF_ERROR(context->StepBegin(WEFT_SHARD_TRAIN, 0));
            WEFT_RETURN_IF_ERROR(context->MicrobatchBegin(0, true));
            for (const int unit : Shuffled(kUnits, step)) {
              WEFT_RETURN_IF_ERROR(context->PreForward(unit));
              WEFT_ASSIGN_OR_RETURN(const ParamView view, context->View(unit));
              const auto u = static_cast<size_t>(unit);
              kept[u] = static_cast<const float*>(view.data);
              values[u].assign(kept[u], kept[u] + view.count);
              WEFT_RETURN_IF_ERROR(context->PostForward(unit));
            }
            for (const int unit : Shuffled(kUnits, step + 10)) {
              WEFT_RETURN_IF_ERROR(context->PreBackward(unit));
              const auto u = static_cast<size_t>(unit);
              EXPECT_TRUE(std::equal(values[u].begin(), values[u].end(), kept[u])) << "unit " << u;
              WEFT_RETURN_IF_ERROR(context->GradReady(unit, nullptr));
              WEFT_RETURN_IF_ERROR(context->PostBackward(unit));
              // Poisoned, or another unit's.
              EXPECT_FALSE(std::equal(values[u].begin(), values[u].end(), kept[u])) << "unit " << u;
            }
            WEFT_RETURN_IF_ERROR(context->MicrobatchEnd());
            WEFT_RETURN_IF_ERROR(context->Finish().status());
            WEFT_RETURN_IF_ERROR(context->StepEnd());
          }
          return absl::OkStatus();
        }));
  }
}

// AdamW in float32, whose last bit tells any other order or place.
TEST(StableViews, DoNotChangeABit) {
  for (int preset = WEFT_SHARD_GRAD_OP; preset <= WEFT_SHARD_FRACTION; ++preset) {
    const auto of = static_cast<weft_shard_preset_t>(preset);
    std::vector<std::vector<float>> weights;  // by views
    for (const weft_shard_views_t views :
         {WEFT_SHARD_VIEWS_MOVE, WEFT_SHARD_VIEWS_STABLE, WEFT_SHARD_VIEWS_APART}) {
      std::vector<float> found;
      ExpectAllOk(RunRanks(
          GroupKind::kLocal, 4, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
            std::vector<MeshAxis> axes;
            if (!AxesOf(of, 4).empty()) axes = {{"outer", 2}, {"inner", 2}};
            WEFT_ASSIGN_OR_RETURN(auto mesh, Mesh::Create(std::move(group), std::move(axes)));
            TrainedModel model({.preset = of, .counts = {640, 1031, 3, 512, 77, 256}});
            WEFT_RETURN_IF_ERROR(model.Make(mesh, {.views = views, .memory = {.poison = true}}));
            for (uint64_t step = 0; step < 6; ++step) {
              if (step >= 3) model.order = Shuffled(6, step / 2);
              WEFT_RETURN_IF_ERROR(model.Step());
            }
            WEFT_ASSIGN_OR_RETURN(std::vector<float> read, model.Read());
            if (rank == 0) found = std::move(read);
            return absl::OkStatus();
          }));
      weights.push_back(std::move(found));
    }
    EXPECT_FALSE(weights[0].empty());
    EXPECT_EQ(weights[0], weights[1]) << "preset " << preset;
    EXPECT_EQ(weights[0], weights[2]) << "preset " << preset;
  }
}

}  // namespace
}  // namespace weft::stable_views_test
