// Steps that use a unit more than once, or not at all, as a hint has said: planned, replayed from the first one on.
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "weft/log.h"

#include "base/log.h"
#include "base/status.h"
#include "base/text.h"
#include "gmock/gmock.h"
#include "shard/step/prediction.h"
#include "tests/shard/exact_model.h"
#include "tests/shard/ranks.h"

namespace weft::order_hint_test {
namespace {

using testing::HasSubstr;

constexpr weft_shard_preset_t kCutPresets[] = {WEFT_SHARD_ZERO1, WEFT_SHARD_ZERO2,
                                               WEFT_SHARD_GRAD_OP, WEFT_SHARD_FULL_SHARD,
                                               WEFT_SHARD_FRACTION};

// Five units, the first used at both ends, as a tied head is.
const std::vector<int> kTied = {0, 1, 2, 3, 4, 0};

std::vector<int> Reversed(const std::vector<int>& order) {
  return {order.rbegin(), order.rend()};
}

// Every rank hints `order` (none if empty), declares five units of one size and finalizes.
using Body = std::function<absl::Status(ExactModel&, Context&, const weft_shard_plan_t&)>;

std::vector<absl::Status> RunModel(int ranks, ContextOptions options, weft_shard_preset_t preset,
                                   const std::vector<int>& order, const Body& body) {
  options.average = false;
  return RunRanks(GroupKind::kLocal, ranks,
                  [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
                    WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group, options));
                    WEFT_RETURN_IF_ERROR(context->builder().HintOrder(order));
                    ExactModel model(*context, ExactUnits(5, preset), rank, ranks);
                    WEFT_ASSIGN_OR_RETURN(const weft_shard_plan_t plan, model.Finalize());
                    return body(model, *context, plan);
                  });
}

TEST(HintOrder, MakesTheFirstStepOfATiedModelTheExpectedOne) {
  for (const weft_shard_preset_t preset : kCutPresets) {
    for (const auto accumulation : {WEFT_SHARD_LOCAL_THEN_REDUCE, WEFT_SHARD_REDUCE_EVERY}) {
      SCOPED_TRACE(PresetName(preset));
      const auto body = [&](ExactModel& model, Context& context,
                            const weft_shard_plan_t& plan) -> absl::Status {
        for (int step = 0; step < 3; ++step) {
          WEFT_ASSIGN_OR_RETURN(const auto result,
                                model.Train(ScriptOf(kTied, Reversed(kTied), 2)));
          EXPECT_EQ(result.replayed, 1) << "step " << step;
          EXPECT_EQ(result.order_changed, 0) << "step " << step;
          EXPECT_EQ(result.pool_bytes, plan.pool_bytes) << "step " << step;
          EXPECT_EQ(context.spilled_bytes_max(), 0u);
          // The updates of the step before are this one's.
          if (step > 0) {
            EXPECT_EQ(result.gathered_bytes, plan.gather_bytes);
          }
        }
        WEFT_ASSIGN_OR_RETURN(const auto evaluated, model.Eval(ScriptOf(kTied, {}, 2), 1));
        EXPECT_EQ(evaluated.replayed, 1);
        EXPECT_EQ(context.pool_bytes(), plan.pool_bytes);
        return model.ExpectWeights();
      };
      ExpectAllOk(
          RunModel(3, {.accumulation = accumulation, .microbatches = 2}, preset, kTied, body));
    }
  }
}

// The first unit stays while the others are used, and the fourth while the fifth is.
TEST(NestUnit, MakesTheFirstStepOfANestedModelTheExpectedOne) {
  const std::vector<int> order = {0, 1, 2, 3, 4};
  const std::vector<int> within = {-1, 0, 0, 0, 3};
  for (const weft_shard_preset_t preset : kCutPresets) {
    for (const auto views : {WEFT_SHARD_VIEWS_MOVE, WEFT_SHARD_VIEWS_STABLE}) {
      SCOPED_TRACE(PresetName(preset));
      ExpectAllOk(RunRanks(
          GroupKind::kLocal, 3, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
            WEFT_ASSIGN_OR_RETURN(
                auto context,
                MakeContext(group, {.average = false, .microbatches = 2, .views = views}));
            std::vector<ExactUnit> units = ExactUnits(5, preset);
            for (size_t unit = 0; unit < units.size(); ++unit)
              units[unit].within = within[unit];
            ExactModel model(*context, units, rank, 3);
            WEFT_ASSIGN_OR_RETURN(const weft_shard_plan_t plan, model.Finalize());
            for (int step = 0; step < 3; ++step) {
              WEFT_ASSIGN_OR_RETURN(
                  const auto result,
                  model.Train(PredictEvents(order, within, /*train=*/true, /*microbatches=*/2)));
              EXPECT_EQ(result.replayed, 1) << "step " << step;
              EXPECT_EQ(result.order_changed, 0) << "step " << step;
              EXPECT_EQ(result.pool_bytes, plan.pool_bytes) << "step " << step;
              EXPECT_EQ(context->spilled_bytes_max(), 0u);
            }
            return model.ExpectWeights();
          }));
    }
  }
}

TEST(NestUnit, HasToBeTheSameOnAllRanks) {
  const auto ends = RunRanks(GroupKind::kLocal, 2,
                             [](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
                               WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group, {}));
                               std::vector<ExactUnit> units = ExactUnits(3, WEFT_SHARD_FULL_SHARD);
                               units[2].within = rank;
                               return ExactModel(*context, units, rank, 2).Finalize().status();
                             });
  for (const absl::Status& end : ends) {
    EXPECT_EQ(ResultOf(end), WEFT_MISMATCH);
    EXPECT_THAT(std::string(end.message()), HasSubstr(" within "));
  }
}

TEST(HintOrder, LeavesOutUnitsThatAreNotUsed) {
  const std::vector<int> some = {0, 3, 4};
  for (const weft_shard_preset_t preset : kCutPresets) {
    SCOPED_TRACE(PresetName(preset));
    ExpectAllOk(RunModel(
        2, {}, preset, some,
        [&](ExactModel& model, Context&, const weft_shard_plan_t& plan) -> absl::Status {
          for (int step = 0; step < 2; ++step) {
            WEFT_ASSIGN_OR_RETURN(const auto result, model.Train(ScriptOf(some, Reversed(some))));
            EXPECT_EQ(result.replayed, 1);
            EXPECT_EQ(result.pool_bytes, plan.pool_bytes);
          }
          return model.ExpectWeights();
        }));
  }
}

TEST(HintOrder, IsAnExpectationOnly) {
  ExpectAllOk(RunModel(2, {}, WEFT_SHARD_FULL_SHARD, kTied,
                       [&](ExactModel& model, Context&, const weft_shard_plan_t&) -> absl::Status {
                         const std::vector<int> other = {2, 1, 0, 4, 3, 2, 2};
                         for (int step = 0; step < 2; ++step) {
                           WEFT_ASSIGN_OR_RETURN(const auto result,
                                                 model.Train(ScriptOf(other, Reversed(other))));
                           EXPECT_EQ(result.replayed, step);
                         }
                         return model.ExpectWeights();
                       }));
}

TEST(HintOrder, GathersAKeptUnitOnceHoweverOftenItIsUsed) {
  const auto gathered = [](const std::vector<int>& order) {
    uint64_t bytes = 0;
    ExpectAllOk(RunModel(1, {}, WEFT_SHARD_GRAD_OP, order,
                         [&](ExactModel&, Context&, const weft_shard_plan_t& plan) {
                           bytes = plan.gather_bytes;
                           return absl::OkStatus();
                         }));
    return bytes;
  };
  EXPECT_GT(gathered({}), 0u);
  EXPECT_EQ(gathered(kTied), gathered({}));
}

TEST(HintOrder, HasToBeTheSameOnAllRanks) {
  const auto finalize = [](const std::function<std::vector<int>(int rank)>& order_of) {
    return RunRanks(GroupKind::kLocal, 2,
                    [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
                      WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group));
                      for (const char* name : {"a", "b"})
                        WEFT_RETURN_IF_ERROR(AddUnitWithParam(*context, name, {4}).status());
                      WEFT_RETURN_IF_ERROR(context->builder().HintOrder(order_of(rank)));
                      return context->Finalize().status();
                    });
  };
  for (const absl::Status& status : finalize([](int rank) {
         return std::vector<int>{0, rank, 1};
       })) {
    EXPECT_EQ(ResultOf(status), WEFT_MISMATCH);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("use 1 of the hinted order: rank 1 has unit b, rank 0 has unit a"));
  }
  for (const absl::Status& status :
       finalize([](int rank) { return std::vector<int>(static_cast<size_t>(rank), 0); })) {
    EXPECT_EQ(ResultOf(status), WEFT_MISMATCH);
    EXPECT_THAT(std::string(status.message()), HasSubstr("rank 0 has nothing more"));
  }
}

TEST(HintOrder, IsRefusedAfterFinalize) {
  ExpectAllOk(RunModel(1, {}, WEFT_SHARD_ZERO1, {},
                       [](ExactModel&, Context& context, const weft_shard_plan_t&) {
                         EXPECT_EQ(ResultOf(context.builder().HintOrder({0})), WEFT_BAD_STATE);
                         return absl::OkStatus();
                       }));
}

// Collects warnings while it lives.
class Warnings {
 public:
  Warnings() { SetLogCallback(&Warnings::Take, this); }

  ~Warnings() { SetLogCallback(nullptr, nullptr); }

  Warnings(const Warnings&) = delete;
  Warnings& operator=(const Warnings&) = delete;

  std::vector<std::string> texts() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return texts_;
  }

 private:
  static void Take(weft_log_level_t level, const char* message, void* user) {
    auto* const self = static_cast<Warnings*>(user);
    const std::lock_guard<std::mutex> lock(self->mutex_);
    if (level == WEFT_LOG_WARN) self->texts_.emplace_back(message);
  }

  std::mutex mutex_;
  std::vector<std::string> texts_;
};

// The least pool of a FULL_SHARD model with this hint.
size_t LeastPool(const std::vector<int>& order) {
  size_t bytes = 0;
  ExpectAllOk(RunModel(1, {.prefetch = 0}, WEFT_SHARD_FULL_SHARD, order,
                       [&](ExactModel&, Context&, const weft_shard_plan_t& plan) {
                         bytes = plan.pool_bytes;
                         return absl::OkStatus();
                       }));
  return bytes;
}

TEST(HintOrder, LetsFinalizeRefuseABudgetThatStepsWouldBreak) {
  const size_t least = LeastPool(kTied);
  ASSERT_GT(least, LeastPool({}));
  const auto nothing = [](ExactModel&, Context&, const weft_shard_plan_t&) {
    return absl::OkStatus();
  };
  ExpectAllOk(RunModel(2, {.budget_bytes = least}, WEFT_SHARD_FULL_SHARD, kTied, nothing));
  for (const absl::Status& status :
       RunModel(2, {.budget_bytes = least - 1}, WEFT_SHARD_FULL_SHARD, kTied, nothing)) {
    EXPECT_EQ(ResultOf(status), WEFT_OUT_OF_MEMORY);
    EXPECT_THAT(std::string(status.message()), HasSubstr(StrCat("at least ", least)));
  }
}

TEST(HintOrder, WithoutItAStepAboveTheBudgetWorksAndOneRankSaysSoOnce) {
  const size_t least = LeastPool(kTied);
  Warnings warnings;
  ExpectAllOk(
      RunModel(2, {.budget_bytes = least - 1}, WEFT_SHARD_FULL_SHARD, {},
               [&](ExactModel& model, Context&, const weft_shard_plan_t& plan) -> absl::Status {
                 EXPECT_LT(plan.pool_bytes, least);
                 for (uint64_t tag = 0; tag < 2; ++tag) {
                   for (int step = 0; step < 2; ++step) {
                     WEFT_ASSIGN_OR_RETURN(const auto result,
                                           model.Train(ScriptOf(kTied, Reversed(kTied)), tag));
                     EXPECT_EQ(result.replayed, step);
                     EXPECT_EQ(result.pool_bytes, least);
                   }
                 }
                 return model.ExpectWeights();
               }));
  ASSERT_EQ(warnings.texts().size(), 1u);
  const std::string text = warnings.texts()[0];
  EXPECT_THAT(text, HasSubstr(StrCat("need ", least, " bytes")));
  EXPECT_THAT(text, HasSubstr(StrCat("memory_budget_bytes is ", least - 1)));
  EXPECT_THAT(text, HasSubstr("weft_shard_hint_order"));
}

}  // namespace
}  // namespace weft::order_hint_test
