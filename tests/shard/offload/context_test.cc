// Contexts whose optimizer state is in files: the bits of state in memory, in every preset; checkpoints; disks that fail.
#include <cstring>
#include <iterator>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/status.h"
#include "base/text.h"
#include "shard/checkpoint/checkpoint.h"
#include "tests/shard/offload/memory_store.h"
#include "tests/shard/ranks.h"
#include "tests/shard/saved_state.h"
#include "tests/sim/sim_files.h"
#include "tests/support/case_sample.h"

namespace weft {
namespace {

using testing::HasSubstr;

constexpr int kSteps = 3;
constexpr weft_optimizer_kind_t kOptimizers[] = {WEFT_OPTIMIZER_ADAMW, WEFT_OPTIMIZER_SGD,
                                                 WEFT_OPTIMIZER_LION, WEFT_OPTIMIZER_LAMB,
                                                 WEFT_OPTIMIZER_LARS};
// Windows of a few rows, of some params, and one that has everything.
constexpr size_t kBuffers[] = {1, size_t{1} << 17, size_t{1} << 26};

class OffloadedContexts : public testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(Ranks, OffloadedContexts, testing::Values(1, 2, 3, 5, 8));

TEST_P(OffloadedContexts, HaveTheBitsOfStateInMemory) {
  const test::CaseSample sample({.every = 7, .sanitized = 21}, static_cast<size_t>(GetParam()));
  size_t number = 0;
  for (const weft_optimizer_kind_t kind : kOptimizers) {
    for (const weft_shard_preset_t preset : kStatePresets) {
      for (const size_t buffer_bytes : kBuffers) {
        if (!sample.Takes(number++)) continue;
        StateCase setup{.preset = preset,
                        .ranks = GetParam(),
                        .cut = kStateCuts[number % std::size(kStateCuts)],
                        .optimizer = StateOptimizer(kind, /*momentum=*/0.9),
                        .infinite = {1}};
        setup.optimizer.threads = 1 + static_cast<int>(number % 2);
        const WholeState expected = RunFrom(setup, nullptr, 0, 2 * kSteps);
        setup.offload_bytes = buffer_bytes;
        EXPECT_EQ(RunFrom(setup, nullptr, 0, 2 * kSteps).DifferenceFrom(expected), "")
            << NameOf(setup) << ", kind " << kind;
        // From the middle on, with what was read and written by param.
        const WholeState middle = RunFrom(setup, nullptr, 0, kSteps);
        EXPECT_EQ(RunFrom(setup, &middle, kSteps, kSteps).DifferenceFrom(expected), "")
            << NameOf(setup) << ", kind " << kind;
        ASSERT_FALSE(HasFailure());
      }
    }
  }
}

// Saves in the background, from memory or from files, while training goes on; loads in the other way.
TEST_P(OffloadedContexts, SaveAndLoadCheckpoints) {
  const test::CaseSample sample({.every = 4, .sanitized = 8}, static_cast<size_t>(GetParam()));
  size_t number = 0;
  for (const weft_shard_preset_t preset : kStatePresets) {
    for (const bool offloaded_first : {true, false}) {
      if (!sample.Takes(number++)) continue;
      test::SimFiles files;
      const CheckpointOptions options{.directory = "/c", .timeout_ns = 60'000'000'000};
      StateCase setup{
          .preset = preset, .ranks = GetParam(), .optimizer = StateOptimizer(WEFT_OPTIMIZER_ADAMW)};
      const WholeState expected = RunFrom(setup, nullptr, 0, 2 * kSteps);
      for (const bool loads : {false, true}) {
        setup.offload_bytes = offloaded_first != loads ? kBuffers[number % 2] : 0;
        std::vector<Saved> saved(static_cast<size_t>(setup.ranks));
        ExpectAllOk(RunRanks(
            GroupKind::kLocal, setup.ranks,
            [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
              WEFT_ASSIGN_OR_RETURN(auto context, MakeTrained(group, setup));
              WEFT_ASSIGN_OR_RETURN(auto checkpoint, Checkpoint::Create(group, files, options));
              WEFT_RETURN_IF_ERROR(checkpoint->AddContext("", *context));
              if (loads) {
                WEFT_RETURN_IF_ERROR(checkpoint->Load(-1, WEFT_SHARD_STATE_ALL).status());
                WEFT_RETURN_IF_ERROR(context->Verify());
              } else {
                WEFT_RETURN_IF_ERROR(LoadValues(*context));
                WEFT_RETURN_IF_ERROR(TrainSteps(*context, setup, rank, 0, kSteps));
                WEFT_RETURN_IF_ERROR(checkpoint->Save(kSteps, Checkpoint::How::kBackground));
              }
              WEFT_RETURN_IF_ERROR(TrainSteps(*context, setup, rank, kSteps, kSteps));
              WEFT_ASSIGN_OR_RETURN(saved[static_cast<size_t>(rank)], SaveState(*context));
              return checkpoint->WaitUntil(std::numeric_limits<int64_t>::max()).status();
            }));
        ASSERT_FALSE(HasFailure()) << NameOf(setup);
        EXPECT_EQ(MergeStates(saved, setup.optimizer).DifferenceFrom(expected), "")
            << NameOf(setup) << (loads ? " from a checkpoint" : "");
      }
    }
  }
}

// ---- plans ------------------------------------------------------------------------------------

TEST(OffloadedContext, TakesTheMemoryAndMovesTheBytesOfItsPlan) {
  StateCase setup{.preset = WEFT_SHARD_ZERO1,
                  .ranks = 2,
                  .optimizer = StateOptimizer(WEFT_OPTIMIZER_ADAMW),
                  .offload_bytes = size_t{1} << 17};
  ExpectAllOk(RunRanks(
      GroupKind::kLocal, setup.ranks,
      [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(auto context, MakeTrained(group, setup));
        WEFT_ASSIGN_OR_RETURN(const weft_shard_plan_t plan, context->Plan());
        WEFT_ASSIGN_OR_RETURN(const auto reports, context->Report());
        EXPECT_EQ(reports[static_cast<size_t>(rank)].optimizer_bytes, plan.optimizer_bytes);
        EXPECT_LE(plan.optimizer_bytes, setup.offload_bytes + BlockStore::kAlignment);
        EXPECT_EQ(plan.offload_read_bytes, plan.offload_bytes);
        EXPECT_EQ(plan.offload_written_bytes, plan.offload_bytes);
        StateCase resident = setup;
        resident.offload_bytes = 0;
        WEFT_ASSIGN_OR_RETURN(auto other, MakeTrained(group, resident));
        WEFT_ASSIGN_OR_RETURN(const weft_shard_plan_t in_memory, other->Plan());
        EXPECT_GE(plan.offload_bytes, in_memory.optimizer_bytes);
        EXPECT_EQ(in_memory.offload_bytes, 0u);
        EXPECT_EQ(plan.checkpoint_bytes, in_memory.checkpoint_bytes);
        return absl::OkStatus();
      }));
}

// ---- disks that fail --------------------------------------------------------------------------

// At each of the transfers of some steps: no rank waits for the one whose disk has failed, and both say what has happened.
TEST(OffloadedContext, ADiskThatFailsEndsTheUpdateOnAllRanks) {
  for (const weft_optimizer_kind_t kind : {WEFT_OPTIMIZER_ADAMW, WEFT_OPTIMIZER_LAMB}) {
    bool struck = true;
    for (int k = 1; struck; k += kSampled ? 7 : 1) {
      const std::vector<absl::Status> ends = RunRanks(
          GroupKind::kLocal, 2, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
            test::MemoryStore* disk = nullptr;
            ContextOptions options{.limits = {.bucket_bytes = 8192, .first_bucket_bytes = 2048}};
            options.offload = {.directory = "memory", .buffer_bytes = 1};
            options.offload.make_store =
                [&](std::span<std::byte>,
                    uint64_t bytes) -> absl::StatusOr<std::unique_ptr<BlockStore>> {
              auto made = std::make_unique<test::MemoryStore>(bytes, 3);
              disk = made.get();
              return made;
            };
            const StateCase setup{
                .preset = WEFT_SHARD_ZERO2, .ranks = 2, .optimizer = StateOptimizer(kind)};
            WEFT_ASSIGN_OR_RETURN(auto context, MakeTrained(group, setup, options));
            WEFT_RETURN_IF_ERROR(LoadValues(*context));
            if (rank == 1) disk->FailAt(k);
            absl::Status trained = TrainSteps(*context, setup, rank, 0, 2);
            // What was updated last is on its way until somebody asks for it.
            if (trained.ok()) trained = context->Verify();
            EXPECT_EQ(disk->complaints(), "");
            if (trained.ok()) return trained;
            // What rank 1 has is of no use.
            float moment = 0;
            if (rank == 1) {
              EXPECT_FALSE(
                  context->state().Read(0, WEFT_SHARD_STATE_MOMENT1, {0, 1}, &moment).ok());
            }
            return trained;
          });
      struck = !ends[1].ok();
      if (!struck) break;
      EXPECT_EQ(ResultOf(ends[1]), WEFT_SYSTEM_ERROR) << ends[1];
      EXPECT_THAT(std::string(ends[1].message()), HasSubstr("a broken disk"));
      EXPECT_THAT(std::string(ends[1].message()), HasSubstr("go back to a checkpoint"));
      EXPECT_THAT(std::string(ends[0].message()), HasSubstr("a broken disk")) << k;
    }
    EXPECT_FALSE(struck);
  }
}

TEST(OffloadedContext, ADirectoryThatIsNotThereIsNamedOnAllRanks) {
  const std::vector<absl::Status> ends = RunRanks(
      GroupKind::kLocal, 2, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        ContextOptions options;
        options.offload.directory = rank == 1 ? "/nowhere/at/all" : testing::TempDir();
        const StateCase setup{.ranks = 2, .optimizer = StateOptimizer(WEFT_OPTIMIZER_ADAMW)};
        return MakeTrained(group, setup, options).status();
      });
  EXPECT_EQ(ResultOf(ends[0]), WEFT_REMOTE_ERROR) << ends[0];
  EXPECT_THAT(std::string(ends[1].message()), HasSubstr("/nowhere/at/all"));
}

}  // namespace
}  // namespace weft
