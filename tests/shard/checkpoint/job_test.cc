// Checkpoints of jobs: contexts under any preset and number of ranks, saved here or in the background, and loaded again under others.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iterator>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/hidden_thread.h"
#include "base/status.h"
#include "base/text.h"
#include "comm/kernels/dtype.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shard/checkpoint/checkpoint.h"
#include "shard/checkpoint/snapshot.h"
#include "tests/shard/checkpoint/job_runs.h"
#include "tests/shard/ranks.h"
#include "tests/shard/saved_state.h"
#include "tests/sim/sim_files.h"
#include "tests/support/case_sample.h"

namespace weft {
namespace {

using testing::HasSubstr;

constexpr int64_t kForever = std::numeric_limits<int64_t>::max();

class CheckpointJobs : public testing::TestWithParam<int> {};

// Every number of ranks with every other, each time from one preset to another.
TEST_P(CheckpointJobs, AnyRanksAndPresetLoadWhatAnyOthersSaved) {
  const int ranks = GetParam();
  const OptimizerConfig optimizer = StateOptimizer(WEFT_OPTIMIZER_ADAMW);
  const test::CaseSample sample({.every = 3, .sanitized = 8}, static_cast<size_t>(ranks));
  for (size_t i = 0; i < std::size(kStatePresets); ++i) {
    if (!sample.Takes(i)) continue;
    test::SimFiles files;
    const StateCase from{.preset = kStatePresets[i], .ranks = ranks, .optimizer = optimizer};
    const WholeState saved = TrainAndSave(from, files, static_cast<Checkpoint::How>(i % 3));
    ASSERT_FALSE(HasFailure()) << NameOf(from);
    for (const int others : {1, 2, 3, 4, 5, 8}) {
      const StateCase to{
          .preset = kStatePresets[(i + static_cast<size_t>(others)) % std::size(kStatePresets)],
          .ranks = others,
          .cut = kStateCuts[(i + static_cast<size_t>(others)) % std::size(kStateCuts)],
          .optimizer = optimizer};
      EXPECT_EQ(LoadAndTrain(to, files, 0).DifferenceFrom(saved), "")
          << NameOf(from) << ", then " << NameOf(to);
      ASSERT_FALSE(HasFailure());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, CheckpointJobs, testing::Values(1, 2, 3, 4, 5, 8));

// Ranks that hold slices of a tensor, as in tensor parallelism, each in a context of its own; then one that holds all of it.
TEST(CheckpointJob, SlicesOfATensorAreLoadedAsOneAndTheOtherWayRound) {
  constexpr int64_t kColumns = 4;
  const int64_t whole[] = {6, kColumns};
  test::SimFiles files;
  // `slices` ranks; the value of each element is its place in the tensor.
  const auto run = [&](int slices, bool save) {
    ExpectAllOk(RunRanks(
        GroupKind::kLocal, slices,
        [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
          WEFT_ASSIGN_OR_RETURN(auto alone, group->Split(rank, 0, {}));
          WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(alone));
          const int64_t rows = whole[0] / slices;
          const size_t count = static_cast<size_t>(rows * kColumns);
          WEFT_ASSIGN_OR_RETURN(const int param,
                                AddUnitWithParam(*context, "mine", {rows, kColumns}));
          const size_t begin = static_cast<size_t>(rank) * count;
          WEFT_RETURN_IF_ERROR(
              context->builder().SetParamGlobal(param, "up.weight", whole, 2, begin));
          WEFT_RETURN_IF_ERROR(context->Finalize().status());
          std::vector<float> values(count, -1);
          for (size_t i = 0; save && i < count; ++i)
            values[i] = static_cast<float>(begin + i);
          WEFT_RETURN_IF_ERROR(context->Load(param, values.data(), Context::kEveryRank));
          WEFT_ASSIGN_OR_RETURN(auto checkpoint,
                                Checkpoint::Create(group, files, InDirectory("/c")));
          WEFT_RETURN_IF_ERROR(checkpoint->AddContext(StrCat("slice ", rank), *context));
          if (save) {
            WEFT_RETURN_IF_ERROR(checkpoint->Save(1, Checkpoint::How::kForeground));
          } else {
            WEFT_RETURN_IF_ERROR(checkpoint->Load(-1, WEFT_SHARD_STATE_VALUES).status());
          }
          WEFT_RETURN_IF_ERROR(context->Read(param, values.data()));
          for (size_t i = 0; i < count; ++i)
            EXPECT_EQ(values[i], static_cast<float>(begin + i)) << slices << " rank " << rank;
          return absl::OkStatus();
        }));
  };
  run(2, /*save=*/true);
  for (const int slices : {1, 2, 3, 6})
    run(slices, /*save=*/false);
}

// What the plan says before there is anything to save.
TEST(CheckpointJob, APlanHasTheBytesThatEachRankWrites) {
  for (const weft_shard_preset_t preset : kStatePresets) {
    const StateCase setup{
        .preset = preset, .ranks = 4, .optimizer = StateOptimizer(WEFT_OPTIMIZER_ADAMW)};
    ExpectAllOk(
        RunRanks(GroupKind::kLocal, setup.ranks,
                 [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
                   WEFT_ASSIGN_OR_RETURN(auto context, MakeTrained(group, setup));
                   WEFT_ASSIGN_OR_RETURN(ContextState state, ContextState::Of(*context));
                   WEFT_ASSIGN_OR_RETURN(const Snapshot snapshot, TakeSnapshot({{"", &state}}, {}));
                   WEFT_ASSIGN_OR_RETURN(const weft_shard_plan_t plan, context->Plan());
                   EXPECT_EQ(plan.checkpoint_bytes, snapshot.data_bytes())
                       << NameOf(setup) << " rank " << rank;
                   EXPECT_GT(plan.checkpoint_bytes, 0u);
                   return absl::OkStatus();
                 }));
  }
}

// With as many ranks the rest of the run has the bits of one that was never stopped.
TEST(CheckpointJob, TrainsOnUnderAnotherPresetAsIfItHadNotStopped) {
  constexpr int kAfter = 5;
  const StateCase whole{
      .ranks = 3, .optimizer = StateOptimizer(WEFT_OPTIMIZER_ADAMW), .infinite = {1, 4, 5}};
  const WholeState expected = RunFrom(whole, nullptr, 0, kSavedSteps + kAfter);
  for (size_t i = 0; i < std::size(kStatePresets); i += kSampled ? 3 : 1) {
    test::SimFiles files;
    StateCase from = whole;
    from.preset = kStatePresets[i];
    TrainAndSave(from, files, Checkpoint::How::kBackground);
    ASSERT_FALSE(HasFailure());
    StateCase to = whole;
    to.preset = kStatePresets[(i + 3) % std::size(kStatePresets)];
    EXPECT_EQ(LoadAndTrain(to, files, kAfter).DifferenceFrom(expected), "")
        << NameOf(from) << ", then " << NameOf(to);
  }
}

// What training makes of the state later is not in the checkpoint, whether it was copied when the call returned or is read in its place.
TEST(CheckpointJob, ASaveInTheBackgroundHasTheStateOfItsMoment) {
  const StateCase& setup = ThreeRanks();
  for (const Checkpoint::How how : {Checkpoint::How::kBackground, Checkpoint::How::kInPlace}) {
    test::SimFiles files;
    RunJob(setup, files, InDirectory("/c"),
           [&](int rank, Context& context, Checkpoint& checkpoint) -> absl::Status {
             WEFT_RETURN_IF_ERROR(LoadValues(context));
             WEFT_RETURN_IF_ERROR(TrainSteps(context, setup, rank, 0, kSavedSteps));
             WEFT_RETURN_IF_ERROR(checkpoint.Save(kSavedSteps, how));
             WEFT_RETURN_IF_ERROR(TrainSteps(context, setup, rank, kSavedSteps, 2));
             return checkpoint.WaitUntil(kForever).status();
           });
    EXPECT_EQ(LoadAndTrain(setup, files, 0).DifferenceFrom(RunFrom(setup, nullptr, 0, kSavedSteps)),
              "");
  }
}

// In place no state is copied but params.
TEST(CheckpointJob, ASaveInPlaceCopiesParamsAlone) {
  ExpectAllOk(RunRanks(
      GroupKind::kLocal, 3, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(auto context, MakeTrained(group, ThreeRanks()));
        WEFT_ASSIGN_OR_RETURN(ContextState state, ContextState::Of(*context));
        WEFT_ASSIGN_OR_RETURN(const weft_shard_plan_t plan, context->Plan());
        WEFT_ASSIGN_OR_RETURN(const Snapshot all, TakeSnapshot({{"", &state}}, {}));
        EXPECT_EQ(all.copied_bytes(), plan.checkpoint_bytes);
        WEFT_ASSIGN_OR_RETURN(Snapshot in_place, TakeSnapshot({{"", &state}}, {}, true));
        EXPECT_EQ(in_place.copied_bytes(), plan.checkpoint_value_bytes) << rank;
        EXPECT_LT(plan.checkpoint_value_bytes, plan.checkpoint_bytes);
        // An update waits until nobody holds the state.
        std::atomic<bool> let_go{false};
        absl::StatusOr<std::thread> letting_go = StartHiddenThread("letting-go", [&] {
          EXPECT_EQ(in_place.holds.size(), 1u);
          let_go.store(true);
          in_place.holds.clear();
        });
        const absl::Status trained = TrainSteps(*context, ThreeRanks(), rank, 0, 1);
        EXPECT_TRUE(let_go.load());
        letting_go->join();
        return trained;
      }));
}

// Everything that is held, as it is now.
absl::StatusOr<std::string> HeldBytes(const Snapshot& snapshot) {
  std::string bytes;
  for (size_t i = 0; i < snapshot.entries.size(); ++i) {
    const EntryBytes& of = snapshot.bytes[i];
    if (!of.held) continue;
    const size_t count = snapshot.entries[i].end - snapshot.entries[i].begin;
    std::string part(count, '\0');
    if (of.data != nullptr) {
      std::memcpy(part.data(), of.data, count);
    } else {
      WEFT_RETURN_IF_ERROR(of.source->ReadHeld(
          of.tensor, of.kind, of.begin, count / DtypeSize(snapshot.entries[i].dtype), part.data()));
    }
    bytes += part;
  }
  return bytes;
}

// Loading params makes main copies stale; asking for these makes them anew, which is a change of what is held.
TEST(CheckpointJob, WhatIsHeldStaysWhenMainCopiesAreMadeAnew) {
  for (const size_t offload_bytes : {size_t{0}, size_t{1} << 26}) {
    StateCase setup = ThreeRanks();
    setup.offload_bytes = offload_bytes;
    ExpectAllOk(RunRanks(
        GroupKind::kLocal, 3, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
          WEFT_ASSIGN_OR_RETURN(auto context, MakeTrained(group, setup));
          WEFT_RETURN_IF_ERROR(LoadValues(*context));
          WEFT_RETURN_IF_ERROR(TrainSteps(*context, setup, rank, 0, 2));
          WEFT_ASSIGN_OR_RETURN(ContextState state, ContextState::Of(*context));
          WEFT_ASSIGN_OR_RETURN(Snapshot held, TakeSnapshot({{"", &state}}, {}, true));
          WEFT_ASSIGN_OR_RETURN(const std::string before, HeldBytes(held));
          WEFT_RETURN_IF_ERROR(LoadValues(*context));
          // Another checkpoint of the same context, a little later.
          std::atomic<bool> let_go{false};
          std::string after;
          absl::StatusOr<std::thread> letting_go = StartHiddenThread("letting-go", [&] {
            std::this_thread::sleep_for(std::chrono::milliseconds(300));
            absl::StatusOr<std::string> bytes = HeldBytes(held);
            EXPECT_TRUE(bytes.ok());
            if (bytes.ok()) after = *std::move(bytes);
            let_go.store(true);
            held.holds.clear();
          });
          const absl::StatusOr<Snapshot> second = TakeSnapshot({{"", &state}}, {}, true);
          letting_go->join();
          EXPECT_TRUE(after == before)
              << "what is held has changed, offloaded: " << (offload_bytes > 0);
          return second.status();
        }));
  }
}

// A checkpoint that is loaded waits for another one that still reads what is to be written.
TEST(CheckpointJob, ALoadWaitsForAnotherCheckpointThatIsBeingSaved) {
  for (const size_t offload_bytes : {size_t{0}, size_t{1} << 26}) {
    StateCase setup = ThreeRanks();
    setup.offload_bytes = offload_bytes;
    setup.offload_params = offload_bytes > 0;
    test::SimFiles files;
    ExpectAllOk(RunRanks(
        GroupKind::kLocal, 3, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
          WEFT_ASSIGN_OR_RETURN(auto context, MakeTrained(group, setup));
          WEFT_ASSIGN_OR_RETURN(auto checkpoint,
                                Checkpoint::Create(group, files, InDirectory("/c")));
          WEFT_RETURN_IF_ERROR(checkpoint->AddContext("", *context));
          WEFT_RETURN_IF_ERROR(LoadValues(*context));
          WEFT_RETURN_IF_ERROR(TrainSteps(*context, setup, rank, 0, 2));
          WEFT_RETURN_IF_ERROR(checkpoint->Save(2, Checkpoint::How::kForeground));
          WEFT_RETURN_IF_ERROR(TrainSteps(*context, setup, rank, 2, 2));
          WEFT_ASSIGN_OR_RETURN(ContextState state, ContextState::Of(*context));
          WEFT_ASSIGN_OR_RETURN(Snapshot held, TakeSnapshot({{"", &state}}, {}, true));
          WEFT_ASSIGN_OR_RETURN(const std::string before, HeldBytes(held));
          std::string after;
          absl::StatusOr<std::thread> letting_go = StartHiddenThread("letting-go", [&] {
            std::this_thread::sleep_for(std::chrono::milliseconds(500));
            absl::StatusOr<std::string> bytes = HeldBytes(held);
            EXPECT_TRUE(bytes.ok());
            if (bytes.ok()) after = *std::move(bytes);
            held.holds.clear();
          });
          const absl::Status loaded = checkpoint->Load(-1, WEFT_SHARD_STATE_ALL).status();
          letting_go->join();
          EXPECT_TRUE(after == before)
              << "what is held has changed, offloaded: " << (offload_bytes > 0);
          return loaded;
        }));
  }
}

// Of rank 1's file alone: the other ranks need not even have looked at it.
TEST(CheckpointJob, AllRanksGoBackToTheOneBeforeIfOneFindsTheLatestDamaged) {
  test::SimFiles files;
  const StateCase& setup = ThreeRanks();
  RunJob(setup, files, InDirectory("/c"),
         [&](int rank, Context& context, Checkpoint& checkpoint) -> absl::Status {
           WEFT_RETURN_IF_ERROR(LoadValues(context));
           WEFT_RETURN_IF_ERROR(TrainSteps(context, setup, rank, 0, kSavedSteps));
           WEFT_RETURN_IF_ERROR(checkpoint.Save(kSavedSteps, Checkpoint::How::kForeground));
           WEFT_RETURN_IF_ERROR(TrainSteps(context, setup, rank, kSavedSteps, 1));
           return checkpoint.Save(kSavedSteps + 1, Checkpoint::How::kForeground);
         });
  const std::string damaged = "/c/step-00000004/rank-00001.safetensors";
  files.Corrupt(damaged, files.Contents(damaged).size() - 1, 1);
  EXPECT_EQ(LoadAndTrain(setup, files, 0).DifferenceFrom(RunFrom(setup, nullptr, 0, kSavedSteps)),
            "");
  files.Truncate("/c/step-00000003/manifest.json", 10);
  ExpectAllOk(
      RunRanks(GroupKind::kLocal, 3, [&](int, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(auto context, MakeTrained(group, setup));
        WEFT_ASSIGN_OR_RETURN(auto checkpoint, Checkpoint::Create(group, files, InDirectory("/c")));
        WEFT_RETURN_IF_ERROR(checkpoint->AddContext("", *context));
        const auto loaded = checkpoint->Load(-1, WEFT_SHARD_STATE_ALL);
        EXPECT_EQ(ResultOf(loaded.status()), WEFT_CORRUPT);
        EXPECT_THAT(std::string(loaded.status().message()),
                    HasSubstr("none of the 2 checkpoints in /c is whole"));
        return absl::OkStatus();
      }));
}

TEST(CheckpointJob, AnotherModelIsRefusedOnAllRanks) {
  test::SimFiles files;
  TrainAndSave(ThreeRanks(), files, Checkpoint::How::kForeground);
  ExpectAllOk(RunRanks(
      GroupKind::kLocal, 2, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group));
        WEFT_RETURN_IF_ERROR(AddUnitWithParam(*context, "other", {3}).status());
        WEFT_RETURN_IF_ERROR(context->Finalize().status());
        WEFT_ASSIGN_OR_RETURN(auto checkpoint, Checkpoint::Create(group, files, InDirectory("/c")));
        // Rank 1 alone has it; the other has nothing that does not fit.
        if (rank == 1) WEFT_RETURN_IF_ERROR(checkpoint->AddContext("", *context));
        const auto loaded = checkpoint->Load(-1, WEFT_SHARD_STATE_ALL);
        EXPECT_EQ(ResultOf(loaded.status()), WEFT_INVALID_ARGUMENT);
        EXPECT_THAT(std::string(loaded.status().message()),
                    HasSubstr("has no tensor other.weight, of shape [3]"));
        return absl::OkStatus();
      }));
}

// A tensor of the checkpoint that nobody takes would be lost without a word.
TEST(CheckpointJob, ATensorThatNobodyTakesIsRefusedUnlessValuesAloneAreLoaded) {
  test::SimFiles files;
  ExpectAllOk(RunRanks(
      GroupKind::kLocal, 2, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(auto checkpoint, Checkpoint::Create(group, files, InDirectory("/c")));
        std::vector<float> a(5, 1.0f);
        std::vector<float> b(3, 2.0f);
        // Rank 0 has the first two elements of a, rank 1 the others, and all of b.
        WEFT_RETURN_IF_ERROR(checkpoint->AddTensor({.name = "a", .shape = {5}}, rank == 0 ? 0 : 2,
                                                   rank == 0 ? 2 : 3, a.data()));
        if (rank == 1)
          WEFT_RETURN_IF_ERROR(checkpoint->AddTensor({.name = "b", .shape = {3}}, 0, 3, b.data()));
        return checkpoint->Save(1, Checkpoint::How::kForeground);
      }));
  ExpectAllOk(RunRanks(
      GroupKind::kLocal, 3, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(auto checkpoint, Checkpoint::Create(group, files, InDirectory("/c")));
        std::vector<float> a(5, 0.0f);
        WEFT_RETURN_IF_ERROR(checkpoint->AddTensor({.name = "a", .shape = {5}}, 0, 5, a.data()));
        const auto loaded = checkpoint->Load(-1, WEFT_SHARD_STATE_ALL);
        EXPECT_EQ(ResultOf(loaded.status()), WEFT_INVALID_ARGUMENT);
        EXPECT_THAT(std::string(loaded.status().message()),
                    HasSubstr("tensor b, of shape [3], which this program has not"));
        const auto whole = checkpoint->Load(-1, WEFT_SHARD_STATE_VALUES, /*whole=*/true);
        EXPECT_EQ(ResultOf(whole.status()), WEFT_INVALID_ARGUMENT);
        EXPECT_EQ(a, std::vector<float>(5, 0.0f)) << rank;
        WEFT_RETURN_IF_ERROR(checkpoint->Load(-1, WEFT_SHARD_STATE_VALUES).status());
        EXPECT_EQ(a, std::vector<float>(5, 1.0f)) << rank;
        return absl::OkStatus();
      }));
}

// As of a matrix that is cut by columns: more slices than ranks.
TEST(CheckpointJob, ARankMayHaveSeveralSlicesOfATensor) {
  test::SimFiles files;
  const auto add = [](Checkpoint& checkpoint, float* data) -> absl::Status {
    const SavedTensor tensor{.name = "a", .shape = {3, 2}};
    WEFT_RETURN_IF_ERROR(checkpoint.AddTensor(tensor, 4, 2, data + 4));
    WEFT_RETURN_IF_ERROR(checkpoint.AddTensor(tensor, 0, 1, data));
    return checkpoint.AddTensor(tensor, 1, 3, data + 1);
  };
  ExpectAllOk(
      RunRanks(GroupKind::kLocal, 1, [&](int, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(auto checkpoint, Checkpoint::Create(group, files, InDirectory("/c")));
        std::vector<float> saved = {1, 2, 3, 4, 5, 6};
        WEFT_RETURN_IF_ERROR(add(*checkpoint, saved.data()));
        return checkpoint->Save(1, Checkpoint::How::kForeground);
      }));
  ExpectAllOk(
      RunRanks(GroupKind::kLocal, 2, [&](int, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(auto checkpoint, Checkpoint::Create(group, files, InDirectory("/c")));
        std::vector<float> loaded(6);
        WEFT_RETURN_IF_ERROR(add(*checkpoint, loaded.data()));
        WEFT_RETURN_IF_ERROR(checkpoint->Load(-1, WEFT_SHARD_STATE_ALL).status());
        EXPECT_EQ(loaded, (std::vector<float>{1, 2, 3, 4, 5, 6}));
        return absl::OkStatus();
      }));
}

TEST(CheckpointJob, ValuesAreGivenBackToTheRanksThatHadThem) {
  test::SimFiles files;
  const auto run =
      [&](int ranks,
          const std::function<absl::Status(int, Checkpoint&, std::string*, std::string*)>& body) {
        ExpectAllOk(
            RunRanks(GroupKind::kLocal, ranks,
                     [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
                       WEFT_ASSIGN_OR_RETURN(auto checkpoint,
                                             Checkpoint::Create(group, files, InDirectory("/c")));
                       std::string all = StrCat("all ", rank);
                       std::string own = StrCat("own ", rank, std::string(1, 0));
                       const auto calls = [](std::string name, bool per_rank,
                                             std::string* value) -> ValueCalls {
                         return {.name = std::move(name),
                                 .per_rank = per_rank,
                                 .save = [value] { return absl::StatusOr<std::string>(*value); },
                                 .load =
                                     [value](const std::string* bytes) {
                                       *value = bytes == nullptr ? "none" : *bytes;
                                       return absl::OkStatus();
                                     }};
                       };
                       WEFT_RETURN_IF_ERROR(checkpoint->AddValue(calls("all", false, &all)));
                       WEFT_RETURN_IF_ERROR(checkpoint->AddValue(calls("own", true, &own)));
                       EXPECT_FALSE(checkpoint->AddValue(calls("own", true, &own)).ok());
                       return body(rank, *checkpoint, &all, &own);
                     }));
      };
  run(2, [](int, Checkpoint& checkpoint, std::string*, std::string*) {
    return checkpoint.Save(1, Checkpoint::How::kBackground);
  });
  run(3, [](int rank, Checkpoint& checkpoint, std::string* all, std::string* own) -> absl::Status {
    WEFT_RETURN_IF_ERROR(checkpoint.Load(-1, WEFT_SHARD_STATE_ALL).status());
    EXPECT_EQ(*all, "all 0");
    EXPECT_EQ(*own, rank == 2 ? "none" : StrCat("own ", rank, std::string(1, 0)));
    return absl::OkStatus();
  });
}

TEST(CheckpointJob, ANewDirectoryHasNoneAndStepsMustGrow) {
  test::SimFiles files;
  ExpectAllOk(
      RunRanks(GroupKind::kLocal, 2, [&](int, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(auto checkpoint, Checkpoint::Create(group, files, InDirectory("/c")));
        EXPECT_TRUE(absl::IsNotFound(checkpoint->Load(-1, WEFT_SHARD_STATE_ALL).status()));
        WEFT_ASSIGN_OR_RETURN(const bool idle, checkpoint->Test());
        EXPECT_TRUE(idle);
        WEFT_RETURN_IF_ERROR(checkpoint->Save(5, Checkpoint::How::kBackground));
        EXPECT_EQ(ResultOf(checkpoint->Save(5, Checkpoint::How::kBackground)),
                  WEFT_INVALID_ARGUMENT);
        WEFT_RETURN_IF_ERROR(checkpoint->Save(6, Checkpoint::How::kBackground));
        WEFT_RETURN_IF_ERROR(checkpoint->WaitUntil(kForever).status());
        EXPECT_TRUE(absl::IsNotFound(checkpoint->Load(4, WEFT_SHARD_STATE_ALL).status()));
        EXPECT_EQ(checkpoint->Load(5, WEFT_SHARD_STATE_ALL)->step, 5);
        EXPECT_EQ(checkpoint->Load(-1, WEFT_SHARD_STATE_ALL)->step, 6);
        return absl::OkStatus();
      }));
}

// One rank's disk fails: all learn of it at once, training goes on, and the next save is made.
TEST(CheckpointJob, AFailureOfOneRankIsToldToAllAndTheNextSaveIsMade) {
  test::SimFiles files;
  const StateCase& setup = ThreeRanks();
  ExpectAllOk(RunRanks(
      GroupKind::kLocal, 3, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(auto context, MakeTrained(group, setup));
        WEFT_RETURN_IF_ERROR(LoadValues(*context));
        WEFT_ASSIGN_OR_RETURN(auto checkpoint, Checkpoint::Create(group, files, InDirectory("/c")));
        WEFT_RETURN_IF_ERROR(checkpoint->AddContext("", *context));
        WEFT_RETURN_IF_ERROR(checkpoint->Save(1, Checkpoint::How::kForeground));
        if (rank == 1) {
          WEFT_RETURN_IF_ERROR(files.MakeDirectory("/c/step-00000002"));
          WEFT_RETURN_IF_ERROR(files.MakeDirectory("/c/step-00000002/rank-00001.safetensors"));
        }
        WEFT_RETURN_IF_ERROR(checkpoint->Save(2, Checkpoint::How::kBackground));
        const auto ended = checkpoint->WaitUntil(kForever);
        EXPECT_FALSE(ended.ok());
        EXPECT_THAT(std::string(ended.status().message()), HasSubstr("rank-00001.safetensors"));
        WEFT_RETURN_IF_ERROR(TrainSteps(*context, setup, rank, 0, 1));
        return checkpoint->Save(3, Checkpoint::How::kForeground);
      }));
  EXPECT_TRUE(SavedCheckpoint::Open(files, "/c/step-00000003").ok());
}

}  // namespace
}  // namespace weft
