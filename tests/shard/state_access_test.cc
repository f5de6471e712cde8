// A state that was saved under one preset and number of ranks is the same under any other, to the bit: each element of it is
// written by exactly one rank, and training goes on as if it had not been interrupted.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <tuple>
#include <vector>

#include "base/status.h"
#include "base/text.h"
#include "comm/kernels/dtype.h"
#include "gtest/gtest.h"
#include "tests/shard/ranks.h"
#include "tests/shard/saved_state.h"
#include "tests/shard/small_model.h"
#include "tests/support/case_sample.h"

namespace weft::state_access_test {
namespace {

class StateAccessTest : public testing::TestWithParam<std::tuple<int, int>> {
 protected:
  static OptimizerConfig Optimizer(int index) {
    const OptimizerConfig configs[] = {
        StateOptimizer(WEFT_OPTIMIZER_ADAMW),    StateOptimizer(WEFT_OPTIMIZER_SGD),
        StateOptimizer(WEFT_OPTIMIZER_SGD, 0.9), StateOptimizer(WEFT_OPTIMIZER_LION),
        StateOptimizer(WEFT_OPTIMIZER_LAMB),     StateOptimizer(WEFT_OPTIMIZER_LARS)};
    return configs[index];
  }
};

constexpr int kBefore = 3;
constexpr int kAfter = 5;

// Saved under every preset, restored under another: with the same ranks it trains on as if it had never stopped, with
// others it is saved again as it was.
TEST_P(StateAccessTest, GoesOnUnderAnotherPresetAndNumberOfRanks) {
  const auto [optimizer, ranks] = GetParam();
  if (kSampled && ranks != 3) GTEST_SKIP() << "sampled";
  StateCase setup{.ranks = ranks, .optimizer = Optimizer(optimizer), .infinite = {1, 4, 5}};
  const WholeState whole = RunFrom(setup, nullptr, 0, kBefore + kAfter);
  const WholeState half = RunFrom(setup, nullptr, 0, kBefore);
  ASSERT_FALSE(HasFailure());
  // Every preset is taken with some optimizer and number of ranks, and meets others with each.
  const auto seed = static_cast<size_t>(5 * optimizer + ranks);
  const test::CaseSample sample({.every = 3, .sanitized = 5}, seed);
  for (size_t i = 0; i < std::size(kStatePresets); ++i) {
    if (!sample.Takes(i)) continue;
    const size_t number = seed + i;
    setup.preset = kStatePresets[i];
    setup.cut = kStateCuts[number % std::size(kStateCuts)];
    const WholeState saved = RunFrom(setup, nullptr, 0, kBefore);
    ASSERT_FALSE(HasFailure()) << NameOf(setup);
    EXPECT_EQ(saved.DifferenceFrom(half), "") << NameOf(setup);
    StateCase other = setup;
    other.preset = kStatePresets[(5 * number + 3) % std::size(kStatePresets)];
    other.cut = kStateCuts[(number / 2) % std::size(kStateCuts)];
    EXPECT_EQ(RunFrom(other, &saved, kBefore, kAfter).DifferenceFrom(whole), "")
        << NameOf(setup) << ", then " << NameOf(other);
    other.ranks = 1 + static_cast<int>(number) % 4;
    EXPECT_EQ(RunFrom(other, &saved, kBefore, 0).DifferenceFrom(saved), "")
        << NameOf(setup) << ", then " << NameOf(other);
    ASSERT_FALSE(HasFailure());
  }
}

INSTANTIATE_TEST_SUITE_P(All, StateAccessTest,
                         testing::Combine(testing::Range(0, 6), testing::Values(1, 2, 3, 4)));

TEST(StateAccess, MeetsReplicasOfFourRanks) {
  StateCase setup{.preset = WEFT_SHARD_HYBRID_SHARD,
                  .ranks = 8,
                  .optimizer = StateOptimizer(WEFT_OPTIMIZER_ADAMW)};
  const WholeState whole = RunFrom(setup, nullptr, 0, 4);
  const WholeState half = RunFrom(setup, nullptr, 0, 2);
  ASSERT_FALSE(HasFailure());
  setup.preset = WEFT_SHARD_HPZ;
  EXPECT_EQ(RunFrom(setup, &half, 2, 2).DifferenceFrom(whole), "");
  setup = {.preset = WEFT_SHARD_ZERO1, .ranks = 3, .optimizer = setup.optimizer};
  EXPECT_EQ(RunFrom(setup, &half, 2, 0).DifferenceFrom(half), "");
}

// Replicas whose params are unsharded at rest while their optimizer is not.
TEST(StateAccess, DividesWhatReplicasKeepUnsharded) {
  std::vector<Saved> saved(4);
  const OptimizerConfig optimizer = StateOptimizer(WEFT_OPTIMIZER_ADAMW);
  ExpectAllOk(RunRanks(
      GroupKind::kLocal, 4, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group, {}, {2, 2}));
        WEFT_RETURN_IF_ERROR(context->SetOptimizer(optimizer));
        WEFT_ASSIGN_OR_RETURN(
            const Placement placement,
            Replace(PlacementOf(WEFT_SHARD_HYBRID_SHARD), {.params = WEFT_SHARD_PLACE_WHOLE}));
        WEFT_RETURN_IF_ERROR(Declare(*context, StateModel(), placement));
        WEFT_RETURN_IF_ERROR(context->Finalize().status());
        WEFT_RETURN_IF_ERROR(LoadValues(*context));
        WEFT_ASSIGN_OR_RETURN(saved[static_cast<size_t>(rank)], SaveState(*context));
        return absl::OkStatus();
      }));
  MergeStates(saved, optimizer);
}

// ZERO1 and ZERO2: each rank writes its part of the values, and the others' come by the gather.
TEST(StateAccess, GathersValuesOfWhichEachRankWroteItsPart) {
  StateCase setup{.ranks = 3, .optimizer = StateOptimizer(WEFT_OPTIMIZER_ADAMW)};
  const WholeState half = RunFrom(setup, nullptr, 0, 2);
  const WholeState whole = RunFrom(setup, nullptr, 0, 4);
  for (const weft_shard_preset_t preset : {WEFT_SHARD_ZERO1, WEFT_SHARD_ZERO2}) {
    setup.preset = preset;
    std::vector<Saved> saved(3);
    ExpectAllOk(RunRanks(
        GroupKind::kLocal, 3, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
          WEFT_ASSIGN_OR_RETURN(auto context, MakeTrained(group, setup));
          const std::vector<ModelParam> model = StateModel();
          WEFT_RETURN_IF_ERROR(context->state().SetScalars(half.scalars));
          WEFT_RETURN_IF_ERROR(RestoreParts(*context, half));
          for (size_t p = 0; p < model.size(); ++p) {
            WEFT_ASSIGN_OR_RETURN(
                const auto all, context->state().Part(static_cast<int>(p), WEFT_SHARD_STATE_VALUE));
            WEFT_ASSIGN_OR_RETURN(const auto own, context->OwnPart(static_cast<int>(p)));
            if (all.count == 0 || model[p].frozen) continue;
            const size_t size = DtypeSize(all.dtype);
            std::memset(all.data, 0x5a, all.count * size);
            if (own.first.count == 0) continue;
            std::memcpy(own.first.data,
                        half.params[p][WEFT_SHARD_STATE_VALUE].data() + own.second * size,
                        own.first.count * size);
          }
          WEFT_RETURN_IF_ERROR(context->state().Written(WEFT_SHARD_STATE_ALL));
          WEFT_RETURN_IF_ERROR(context->Verify());
          WEFT_RETURN_IF_ERROR(TrainSteps(*context, setup, rank, 2, 2));
          WEFT_ASSIGN_OR_RETURN(saved[static_cast<size_t>(rank)], SaveState(*context));
          return absl::OkStatus();
        }));
    ASSERT_FALSE(HasFailure());
    EXPECT_EQ(MergeStates(saved, setup.optimizer).DifferenceFrom(whole), "");
  }
}

// One rank saves before the first update, when main copies have not been made: nothing of that shows in a comparison, nor later.
TEST(StateAccess, ReadingOnOneRankChangesNothing) {
  StateCase setup{.ranks = 2, .optimizer = StateOptimizer(WEFT_OPTIMIZER_ADAMW)};
  const WholeState expected = RunFrom(setup, nullptr, 0, 2);
  std::vector<Saved> saved(2);
  ExpectAllOk(RunRanks(
      GroupKind::kLocal, 2, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(auto context, MakeTrained(group, setup));
        if (rank == 0) WEFT_RETURN_IF_ERROR(SaveState(*context).status());
        WEFT_RETURN_IF_ERROR(LoadValues(*context));
        if (rank == 0) WEFT_RETURN_IF_ERROR(SaveState(*context).status());
        WEFT_RETURN_IF_ERROR(context->Verify());
        WEFT_RETURN_IF_ERROR(TrainSteps(*context, setup, rank, 0, 2));
        WEFT_ASSIGN_OR_RETURN(saved[static_cast<size_t>(rank)], SaveState(*context));
        return absl::OkStatus();
      }));
  ASSERT_FALSE(HasFailure());
  EXPECT_EQ(MergeStates(saved, setup.optimizer).DifferenceFrom(expected), "");
}

// A checkpoint without main copies: they are made from the values, as after a load.
TEST(StateAccess, MakesMainCopiesOfValuesThatCameWithoutThem) {
  StateCase setup{
      .preset = WEFT_SHARD_ZERO2, .ranks = 2, .optimizer = StateOptimizer(WEFT_OPTIMIZER_ADAMW)};
  const WholeState half = RunFrom(setup, nullptr, 0, 2);
  ASSERT_FALSE(HasFailure());
  std::vector<Saved> written(2), loaded(2);
  for (const bool load : {false, true}) {
    ExpectAllOk(RunRanks(
        GroupKind::kLocal, 2, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
          WEFT_ASSIGN_OR_RETURN(auto context, MakeTrained(group, setup));
          WEFT_RETURN_IF_ERROR(TrainSteps(*context, setup, rank, 0, 1));
          WEFT_RETURN_IF_ERROR(RestoreState(*context, half));
          if (load) {
            for (size_t p = 0; p < half.params.size(); ++p) {
              WEFT_RETURN_IF_ERROR(context->Load(static_cast<int>(p),
                                                 half.params[p][WEFT_SHARD_STATE_VALUE].data(),
                                                 Context::kEveryRank));
            }
          } else {
            WEFT_RETURN_IF_ERROR(
                context->state().Written(WEFT_SHARD_STATE_VALUES | WEFT_SHARD_STATE_MOMENTS));
          }
          WEFT_RETURN_IF_ERROR(TrainSteps(*context, setup, rank, 2, 2));
          WEFT_ASSIGN_OR_RETURN((load ? loaded : written)[static_cast<size_t>(rank)],
                                SaveState(*context));
          return absl::OkStatus();
        }));
  }
  ASSERT_FALSE(HasFailure());
  const WholeState once = MergeStates(written, setup.optimizer);
  EXPECT_EQ(once.DifferenceFrom(MergeStates(loaded, setup.optimizer)), "");
  const WholeState kept = RunFrom(setup, &half, 2, 2);
  EXPECT_NE(once.DifferenceFrom(kept), "") << "main copies are more than the values say";
}

}  // namespace
}  // namespace weft::state_access_test
