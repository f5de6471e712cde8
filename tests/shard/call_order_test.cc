// Steps whose calls come in other orders than declared: served on demand, then replayed; units used twice, not at
// all, or by some ranks only; policies mixed in one context; ranks that are late anywhere.
#include <chrono>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <tuple>

#include "base/status.h"
#include "base/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/shard/exact_model.h"
#include "tests/shard/ranks.h"
#include "tests/shard/small_model.h"
#include "tests/support/case_sample.h"

namespace weft::call_order_test {
namespace {

using testing::HasSubstr;
using Kind = Event::Kind;

constexpr weft_shard_preset_t kCutPresets[] = {WEFT_SHARD_ZERO1, WEFT_SHARD_ZERO2,
                                               WEFT_SHARD_GRAD_OP, WEFT_SHARD_FULL_SHARD,
                                               WEFT_SHARD_FRACTION};

constexpr BucketLimits kSmallBuckets = {.bucket_bytes = 2048, .first_bucket_bytes = 1024};

ContextOptions Sums(ContextOptions options = {}) {
  options.average = false;
  options.limits = kSmallBuckets;
  return options;
}

// Units of different sizes, some of them equal, one uneven in its params.
std::vector<ExactUnit> Units(weft_shard_preset_t preset) {
  std::vector<ExactUnit> units = ExactUnits(5, preset);
  units[1].counts = {1000, 3};
  units[2].counts = {1, 130, 0, 257};
  return units;
}

using Body = std::function<absl::Status(ExactModel& model, Context& context, int rank)>;

std::vector<absl::Status> RunModel(GroupKind kind, int ranks, const ContextOptions& options,
                                   const std::vector<ExactUnit>& units, const Body& body) {
  return RunRanks(kind, ranks, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
    WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group, options));
    ExactModel model(*context, units, rank, ranks);
    WEFT_RETURN_IF_ERROR(model.Finalize().status());
    return body(model, *context, rank);
  });
}

Script Declared(size_t units) {
  std::vector<int> forward(units);
  for (size_t i = 0; i < units; ++i)
    forward[i] = static_cast<int>(i);
  return ScriptOf(forward, {forward.rbegin(), forward.rend()});
}

class CallOrderTest : public testing::TestWithParam<std::tuple<GroupKind, int>> {
 protected:
  void SetUp() override {
    if (LeftOut(kind(), ranks())) GTEST_SKIP() << "sampled";
  }

  static GroupKind kind() { return std::get<0>(GetParam()); }

  static int ranks() { return std::get<1>(GetParam()); }

  // Which ones are left out depends on the test, the kind of group and the ranks.
  static std::vector<weft_shard_preset_t> Presets() {
    const std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
    const test::CaseSample sample({.every = 3, .sanitized = 3}, std::hash<std::string>()(name));
    std::vector<weft_shard_preset_t> presets;
    for (size_t i = 0; i < std::size(kCutPresets); ++i) {
      if (sample.Takes(i)) presets.push_back(kCutPresets[i]);
    }
    sample.Print("presets", std::size(kCutPresets));
    return presets;
  }
};

TEST_P(CallOrderTest, ReplaysAnOrderWhenItComesAgain) {
  for (const weft_shard_preset_t preset : Presets()) {
    for (const auto accumulation : {WEFT_SHARD_LOCAL_THEN_REDUCE, WEFT_SHARD_REDUCE_EVERY}) {
      SCOPED_TRACE(PresetName(preset));
      const ContextOptions options = Sums({.accumulation = accumulation});
      ExpectAllOk(RunModel(kind(), ranks(), options, Units(preset),
                           [&](ExactModel& model, Context&, int) -> absl::Status {
                             int step = 0;
                             for (uint64_t seed = 1; seed <= 3; ++seed) {
                               const int microbatches = 1 + static_cast<int>(seed % 2);
                               const Script script = ScriptOf(
                                   Shuffled(5, 2 * seed), Shuffled(5, 2 * seed + 1), microbatches);
                               for (int again = 0; again < 3; ++again, ++step) {
                                 WEFT_ASSIGN_OR_RETURN(const auto result, model.Train(script));
                                 EXPECT_EQ(result.replayed, again > 0 ? 1 : 0) << "step " << step;
                                 EXPECT_EQ(result.order_changed, again > 0 ? 0 : 1)
                                     << "step " << step;
                               }
                             }
                             return model.ExpectWeights();
                           }));
    }
  }
}

TEST_P(CallOrderTest, ServesAnOrderThatChangesEveryStep) {
  for (const weft_shard_preset_t preset : Presets()) {
    SCOPED_TRACE(PresetName(preset));
    ExpectAllOk(RunModel(kind(), ranks(), Sums({.prefetch = 2}), Units(preset),
                         [&](ExactModel& model, Context&, int) -> absl::Status {
                           for (uint64_t step = 1; step <= 6; ++step) {
                             const Script script = ScriptOf(Shuffled(5, step), Shuffled(5, ~step));
                             WEFT_ASSIGN_OR_RETURN(const auto result, model.Train(script));
                             EXPECT_EQ(result.replayed, 0);
                           }
                           return model.ExpectWeights();
                         }));
  }
}

TEST_P(CallOrderTest, RemembersOneOrderPerTag) {
  ExpectAllOk(RunModel(kind(), ranks(), Sums(), Units(WEFT_SHARD_FULL_SHARD),
                       [&](ExactModel& model, Context&, int) -> absl::Status {
                         for (int round = 0; round < 3; ++round) {
                           for (uint64_t tag = 0; tag < 3; ++tag) {
                             const Script script =
                                 ScriptOf(Shuffled(5, tag + 10), Shuffled(5, tag + 20));
                             WEFT_ASSIGN_OR_RETURN(const auto result, model.Train(script, tag));
                             EXPECT_EQ(result.replayed, round > 0 ? 1 : 0) << "tag " << tag;
                           }
                         }
                         return model.ExpectWeights();
                       }));
}

// Two forwards of unit 1, with two backwards, one, or none; recomputing in and outside of backward.
std::vector<Script> SharedUnits() {
  const auto use = [](Kind pre, int unit, Script& script) {
    script.push_back({pre, unit});
    script.push_back({pre == Kind::kPreForward ? Kind::kPostForward : Kind::kPostBackward, unit});
  };
  std::vector<Script> scripts;
  for (int variant = 0; variant < 5; ++variant) {
    Script script = {{Kind::kMicrobatchBegin, 1}};
    for (const int unit : {0, 1, 2, 1, 3, 4})
      use(Kind::kPreForward, unit, script);
    use(Kind::kPreBackward, 4, script);
    if (variant == 3) {
      script.insert(script.end(), {{Kind::kPreBackward, 3},
                                   {Kind::kPreForward, 3},
                                   {Kind::kPostForward, 3},
                                   {Kind::kPostBackward, 3}});
    } else {
      use(Kind::kPreBackward, 3, script);
    }
    if (variant != 2) use(Kind::kPreBackward, 1, script);
    if (variant == 4) use(Kind::kPreForward, 2, script);
    use(Kind::kPreBackward, 2, script);
    if (variant == 0 || variant == 3) use(Kind::kPreBackward, 1, script);
    use(Kind::kPreBackward, 0, script);
    script.push_back({Kind::kMicrobatchEnd, 0});
    script.push_back({Kind::kFinish, 0});
    scripts.push_back(script);
  }
  return scripts;
}

TEST_P(CallOrderTest, ServesUnitsThatAreUsedTwice) {
  for (const weft_shard_preset_t preset : Presets()) {
    SCOPED_TRACE(PresetName(preset));
    ExpectAllOk(RunModel(
        kind(), ranks(), Sums(), Units(preset),
        [&](ExactModel& model, Context& context, int) -> absl::Status {
          const std::vector<Script> scripts = SharedUnits();
          for (int again = 0; again < 3; ++again) {
            for (size_t tag = 0; tag < scripts.size(); ++tag) {
              WEFT_ASSIGN_OR_RETURN(const auto result, model.Train(scripts[tag], tag));
              EXPECT_EQ(result.replayed, again > 0 ? 1 : 0) << "variant " << tag;
              EXPECT_TRUE(again == 0 || context.spilled_bytes_max() == 0) << "variant " << tag;
            }
          }
          return model.ExpectWeights();
        }));
  }
}

// Depth that is drawn anew in each step, with one tag: unit 1 runs 0 to 3 times.
TEST_P(CallOrderTest, ServesUnitsThatAreUsedMoreOftenThanInTheStepBefore) {
  std::vector<weft_shard_preset_t> presets = Presets();
  presets.push_back(WEFT_SHARD_NO_SHARD);
  for (const weft_shard_preset_t preset : presets) {
    for (const auto accumulation : {WEFT_SHARD_LOCAL_THEN_REDUCE, WEFT_SHARD_REDUCE_EVERY}) {
      SCOPED_TRACE(PresetName(preset));
      ExpectAllOk(RunModel(
          kind(), ranks(), Sums({.accumulation = accumulation}), Units(preset),
          [&](ExactModel& model, Context&, int) -> absl::Status {
            for (const size_t depth : {1, 2, 2, 1, 0, 3, 3}) {
              std::vector<int> forward = {0, 2, 3, 4};
              forward.insert(forward.begin() + 1, depth, 1);
              const Script script = ScriptOf(forward, {forward.rbegin(), forward.rend()}, 2);
              WEFT_RETURN_IF_ERROR(model.Train(script).status());
            }
            return model.ExpectWeights();
          }));
    }
  }
}

TEST_P(CallOrderTest, ServesEvalBetweenTrainingSteps) {
  for (const weft_shard_preset_t preset : Presets()) {
    for (const bool finish : {true, false}) {
      if (ranks() > 3 && finish == (ranks() % 2 == 0)) continue;
      SCOPED_TRACE(PresetName(preset));
      ExpectAllOk(
          RunModel(kind(), ranks(), Sums(), Units(preset),
                   [&](ExactModel& model, Context&, int) -> absl::Status {
                     for (int step = 0; step < 3; ++step) {
                       WEFT_ASSIGN_OR_RETURN(const auto trained, model.Train(Declared(5)));
                       EXPECT_EQ(trained.replayed, 1);
                       for (const int microbatches : {1, 3}) {
                         const Script same = ScriptOf({0, 1, 2, 3, 4}, {}, microbatches, finish);
                         WEFT_RETURN_IF_ERROR(model.Eval(same).status());
                         const Script other = ScriptOf({4, 2, 2, 0}, {}, microbatches, finish);
                         WEFT_RETURN_IF_ERROR(model.Eval(other, 1).status());
                       }
                       // As if something went wrong and was left.
                       WEFT_RETURN_IF_ERROR(model.Eval({}).status());
                     }
                     return model.ExpectWeights();
                   }));
    }
  }
}

TEST_P(CallOrderTest, ServesMixedPolicies) {
  std::vector<ExactUnit> units = Units(WEFT_SHARD_NO_SHARD);
  const weft_shard_preset_t presets[] = {WEFT_SHARD_NO_SHARD, WEFT_SHARD_ZERO2,
                                         WEFT_SHARD_FULL_SHARD, WEFT_SHARD_FRACTION,
                                         WEFT_SHARD_ZERO1};
  for (size_t i = 0; i < units.size(); ++i)
    units[i].placement = PlacementOf(presets[i]);
  units[1].placement.cut = CutRule::kRows;
  units[1].placement.cut_rows = 3;
  units[2].placement.cut = CutRule::kParams;
  for (const size_t budget : {0, 8192, 16384}) {
    SCOPED_TRACE(budget);
    ExpectAllOk(RunModel(kind(), ranks(), Sums({.budget_bytes = budget}), units,
                         [&](ExactModel& model, Context& context, int) -> absl::Status {
                           for (int step = 0; step < 3; ++step) {
                             WEFT_ASSIGN_OR_RETURN(const auto result, model.Train(Declared(5)));
                             EXPECT_EQ(result.replayed, 1);
                             EXPECT_EQ(context.spilled_bytes_max(), 0u);
                             EXPECT_TRUE(budget == 0 || context.pool_bytes() <= budget);
                           }
                           const Script other = ScriptOf(Shuffled(5, 3), Shuffled(5, 4), 2);
                           for (int step = 0; step < 3; ++step)
                             WEFT_RETURN_IF_ERROR(model.Train(other).status());
                           return model.ExpectWeights();
                         }));
  }
}

TEST_P(CallOrderTest, ServesUnitsThatOnlySomeRanksRunBackward) {
  // Where params rest whole, ranks may differ in this; the others only in gradients.
  for (const weft_shard_preset_t preset :
       {WEFT_SHARD_NO_SHARD, WEFT_SHARD_ZERO1, WEFT_SHARD_ZERO2}) {
    SCOPED_TRACE(PresetName(preset));
    ExpectAllOk(RunModel(kind(), ranks(), Sums(), Units(preset),
                         [&](ExactModel& model, Context&, int) -> absl::Status {
                           for (int step = 0; step < 6; ++step) {
                             const auto script_of = [step](int rank) {
                               std::vector<int> backward;
                               for (int unit = 4; unit >= 0; --unit)
                                 if ((unit + rank + step) % 3 != 0 || step == 5)
                                   backward.push_back(unit);
                               return ScriptOf({0, 1, 2, 3, 4}, backward, 1 + step % 2);
                             };
                             WEFT_RETURN_IF_ERROR(model.Train(script_of).status());
                           }
                           return model.ExpectWeights();
                         }));
  }
}

TEST_P(CallOrderTest, ServesBackwardInAnOrderOfEachRanksOwn) {
  for (const weft_shard_preset_t preset : {WEFT_SHARD_ZERO1, WEFT_SHARD_ZERO2}) {
    SCOPED_TRACE(PresetName(preset));
    ExpectAllOk(RunModel(
        kind(), ranks(), Sums({.budget_bytes = 16384}), Units(preset),
        [&](ExactModel& model, Context&, int) -> absl::Status {
          for (int step = 0; step < 6; ++step) {
            // Rank 0 keeps to the declared order.
            const auto script_of = [step](int rank) {
              const auto seed = static_cast<uint64_t>(8 * (step / 2) + rank);
              return rank == 0 ? Declared(5) : ScriptOf({0, 1, 2, 3, 4}, Shuffled(5, seed));
            };
            WEFT_RETURN_IF_ERROR(model.Train(script_of).status());
          }
          return model.ExpectWeights();
        }));
  }
}

TEST_P(CallOrderTest, ServesForwardWithoutBackward) {
  for (const weft_shard_preset_t preset : Presets()) {
    SCOPED_TRACE(PresetName(preset));
    ExpectAllOk(RunModel(
        kind(), ranks(), Sums(), Units(preset),
        [&](ExactModel& model, Context& context, int) -> absl::Status {
          for (int step = 0; step < 9; ++step) {
            const std::vector<int> backwards[] = {{4, 2, 0}, {}, {1, 3}};
            const Script script = ScriptOf({0, 1, 2, 3, 4}, backwards[step / 3], 2);
            WEFT_ASSIGN_OR_RETURN(const auto result, model.Train(script));
            EXPECT_EQ(result.replayed, step % 3 == 0 ? 0 : 1) << step;
            EXPECT_TRUE(step % 3 == 0 || context.spilled_bytes_max() == 0)
                << step << " " << context.spilled_bytes_max() << " of " << context.pool_bytes();
          }
          return model.ExpectWeights();
        }));
  }
}

TEST_P(CallOrderTest, ToleratesRanksThatAreLateAnywhere) {
  if (kSampled && ranks() > 3) return;
  if (kind() == GroupKind::kReference) return;
  for (const weft_shard_preset_t preset :
       {WEFT_SHARD_ZERO2, WEFT_SHARD_GRAD_OP, WEFT_SHARD_FULL_SHARD}) {
    SCOPED_TRACE(PresetName(preset));
    ExpectAllOk(RunModel(
        kind(), ranks(), Sums(), Units(preset),
        [&](ExactModel& model, Context&, int rank) -> absl::Status {
          std::mt19937 random(static_cast<uint32_t>(rank) + 1);
          model.pause = [&] {
            if (random() % 8 != 0) return;
            std::this_thread::sleep_for(std::chrono::milliseconds(1 + random() % 3));
          };
          for (int step = 0; step < 4; ++step) {
            const Script script = step < 2 ? Declared(5) : ScriptOf(Shuffled(5, 7), Shuffled(5, 8));
            WEFT_RETURN_IF_ERROR(model.Train(script).status());
          }
          return model.ExpectWeights();
        }));
  }
}

TEST_P(CallOrderTest, NamesARankThatGathersInAnotherOrder) {
  if (ranks() == 1) return;
  for (const bool equal_sizes : {true, false}) {
    SCOPED_TRACE(equal_sizes);
    const std::vector<ExactUnit> units =
        equal_sizes ? ExactUnits(5, WEFT_SHARD_FULL_SHARD) : Units(WEFT_SHARD_FULL_SHARD);
    const std::vector<absl::Status> statuses = RunModel(
        kind(), ranks(), Sums(), units, [&](ExactModel& model, Context&, int rank) -> absl::Status {
          WEFT_RETURN_IF_ERROR(model.Train(Declared(5)).status());
          // Leaves the common order at its second unit.
          const std::vector<int> forward =
              rank == 1 ? std::vector<int>{0, 3, 2, 1, 4} : std::vector<int>{0, 4, 3, 2, 1};
          return model.Train(ScriptOf(forward, Shuffled(5, 1))).status();
        });
    for (const absl::Status& status : statuses) {
      EXPECT_EQ(ResultOf(status), WEFT_MISMATCH) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr("unit"));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    , CallOrderTest, testing::Combine(testing::ValuesIn(kGroupKinds), testing::ValuesIn(kRankSet)),
    [](const auto& info) {
      return StrCat(GroupKindName(std::get<0>(info.param)), std::get<1>(info.param));
    });

}  // namespace
}  // namespace weft::call_order_test
