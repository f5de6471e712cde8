// Contexts whose optimizer state is in files: the bits of state in memory, in every preset; checkpoints; disks that fail.
#include <chrono>
#include <cstring>
#include <iterator>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/status.h"
#include "base/text.h"
#include "comm/kernels/dtype.h"
#include "shard/checkpoint/checkpoint.h"
#include "tests/shard/gradient_step.h"
#include "tests/shard/offload/memory_store.h"
#include "tests/shard/param_values.h"
#include "tests/shard/ranks.h"
#include "tests/shard/saved_state.h"
#include "tests/sim/sim_files.h"
#include "tests/support/case_sample.h"

namespace weft::context_test {
namespace {

using testing::HasSubstr;

constexpr int kSteps = 3;
constexpr weft_optimizer_kind_t kOptimizers[] = {WEFT_OPTIMIZER_ADAMW, WEFT_OPTIMIZER_SGD,
                                                 WEFT_OPTIMIZER_LION, WEFT_OPTIMIZER_LAMB,
                                                 WEFT_OPTIMIZER_LARS};
// Windows of a few rows, of some params, and one that has everything.
constexpr size_t kBuffers[] = {1, size_t{1} << 17, size_t{1} << 26};

// A store in memory in the place of a file; *disk is it, once the context is finalized, and *reads, if it is given, the one through which gathers
// read params, which are then offloaded, too.
OffloadOptions OnMemory(size_t buffer_bytes, test::MemoryStore** disk,
                        test::MemoryStore** reads = nullptr) {
  OffloadOptions options{
      .directory = "memory", .buffer_bytes = buffer_bytes, .params = reads != nullptr};
  options.make_store = [disk, reads](
                           std::span<std::byte>,
                           uint64_t bytes) -> absl::StatusOr<std::unique_ptr<BlockStore>> {
    const bool again = *disk != nullptr;
    auto made = again ? std::make_unique<test::MemoryStore>(**disk, 4)
                      : std::make_unique<test::MemoryStore>(bytes, 3);
    *(again ? reads : disk) = made.get();
    return made;
  };
  return options;
}

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
        setup.offload_params = number % 4 < 2;
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
        setup.offload_params = setup.offload_bytes > 0;
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

// What reads and copies params finds those that are in files.
TEST_P(OffloadedContexts, ReadAndBroadcastParamsThatAreInFiles) {
  const int ranks = GetParam();
  for (const weft_shard_preset_t preset : {WEFT_SHARD_FULL_SHARD, WEFT_SHARD_HYBRID_SHARD}) {
    if (preset == WEFT_SHARD_HYBRID_SHARD && ranks % 2 != 0) continue;
    const std::vector<ModelParam> model = StateModel();
    std::vector<std::vector<std::vector<char>>> read(2);  // by whether params are offloaded
    for (const bool offloaded : {false, true}) {
      StateCase setup{.preset = preset,
                      .ranks = ranks,
                      .optimizer = StateOptimizer(WEFT_OPTIMIZER_ADAMW),
                      .offload_bytes = size_t{1} << 17,
                      .offload_params = offloaded};
      read[offloaded].resize(static_cast<size_t>(ranks));
      ExpectAllOk(RunRanks(
          GroupKind::kLocal, ranks,
          [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
            WEFT_ASSIGN_OR_RETURN(auto context, MakeTrained(group, setup));
            WEFT_RETURN_IF_ERROR(LoadValues(*context));
            WEFT_RETURN_IF_ERROR(TrainSteps(*context, setup, rank, 0, 2));
            WEFT_RETURN_IF_ERROR(context->Verify());
            WEFT_RETURN_IF_ERROR(context->Broadcast(ranks - 1));
            WEFT_RETURN_IF_ERROR(context->Verify());
            for (size_t param = 0; param < model.size(); ++param) {
              std::vector<char> one(model[param].count() * DtypeSize(model[param].dtype));
              WEFT_RETURN_IF_ERROR(context->Read(static_cast<int>(param), one.data()));
              // From one rank's memory to the files of all, in one piece and then as from any rank.
              WEFT_RETURN_IF_ERROR(context->Load(static_cast<int>(param), one.data(),
                                                 param % 2 == 0 ? Context::kEveryRank : 0));
              std::vector<char> again(one.size());
              WEFT_RETURN_IF_ERROR(context->Read(static_cast<int>(param), again.data()));
              EXPECT_EQ(again, one) << model[param].name;
              std::vector<char>& all = read[offloaded][static_cast<size_t>(rank)];
              all.insert(all.end(), one.begin(), one.end());
            }
            return absl::OkStatus();
          }));
    }
    EXPECT_EQ(read[1], read[0]) << preset;
  }
}

// A unit is used several times, and a step leaves its schedule: what is read and what is gathered stay in one order on all ranks.
TEST(OffloadedContext, ParamsComeInStepsThatLeaveTheirSchedule) {
  constexpr int kRanks = 3;
  std::vector<WholeState> ends;
  for (const bool offloaded : {false, true}) {
    StateCase setup{.preset = WEFT_SHARD_FULL_SHARD,
                    .ranks = kRanks,
                    .optimizer = StateOptimizer(WEFT_OPTIMIZER_ADAMW),
                    .offload_bytes = 1,
                    .offload_params = offloaded};
    std::vector<Saved> saved(kRanks);
    ExpectAllOk(RunRanks(
        GroupKind::kLocal, kRanks,
        [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
          WEFT_ASSIGN_OR_RETURN(auto context, MakeTrained(group, setup));
          WEFT_RETURN_IF_ERROR(LoadValues(*context));
          const auto units = static_cast<int>(context->registry().units().size());
          for (int step = 0; step < 4; ++step) {
            // Forwards in another order than the one before.
            WEFT_RETURN_IF_ERROR(context->StepBegin(WEFT_SHARD_EVAL, static_cast<uint64_t>(step)));
            WEFT_RETURN_IF_ERROR(context->MicrobatchBegin(0, true));
            for (int i = 0; i < units; ++i) {
              const int unit = (i * (step + 1) + step) % units;
              WEFT_RETURN_IF_ERROR(context->PreForward(unit));
              WEFT_RETURN_IF_ERROR(context->PostForward(unit));
            }
            WEFT_RETURN_IF_ERROR(context->MicrobatchEnd());
            WEFT_RETURN_IF_ERROR(context->Finish().status());
            WEFT_RETURN_IF_ERROR(context->StepEnd());
            WEFT_RETURN_IF_ERROR(TrainSteps(*context, setup, rank, step, 1));
          }
          WEFT_ASSIGN_OR_RETURN(saved[static_cast<size_t>(rank)], SaveState(*context));
          return absl::OkStatus();
        }));
    ends.push_back(MergeStates(saved, setup.optimizer));
  }
  EXPECT_EQ(ends[1].DifferenceFrom(ends[0]), "");
}

// Matrices by MUON, others by LION and ADAMW in turns: what is kept of neighbours differs.
TEST(OffloadedContext, ParamsOfSeveralGroupsHaveTheBitsOfStateInMemory) {
  constexpr int kRanks = 3;
  const std::vector<ModelParam> model = StateModel();
  const auto run = [&](size_t offload_bytes) {
    std::vector<std::vector<char>> values(kRanks);
    ExpectAllOk(RunRanks(
        GroupKind::kLocal, kRanks,
        [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
          ContextOptions options{.limits = {.bucket_bytes = 8192, .first_bucket_bytes = 2048}};
          if (offload_bytes > 0)
            options.offload = {.directory = testing::TempDir(), .buffer_bytes = offload_bytes};
          WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group, options));
          WEFT_RETURN_IF_ERROR(context->SetOptimizer(StateOptimizer(WEFT_OPTIMIZER_ADAMW)));
          Placement placement = PlacementOf(WEFT_SHARD_ZERO1);
          placement.cut = CutRule::kParams;
          WEFT_RETURN_IF_ERROR(Declare(*context, model, placement));
          std::vector<int> groups;
          for (const weft_optimizer_kind_t kind : {WEFT_OPTIMIZER_LION, WEFT_OPTIMIZER_MUON}) {
            weft_shard_param_group_t of_kind = {};
            of_kind.struct_size = sizeof(of_kind);
            of_kind.kind = kind;
            WEFT_ASSIGN_OR_RETURN(const int number, context->builder().AddGroup(of_kind));
            groups.push_back(number);
          }
          for (size_t param = 0; param < model.size(); ++param) {
            if (model[param].frozen) continue;
            const bool matrix = model[param].shape.size() == 2 && model[param].count() > 0;
            if (!matrix && param % 2 == 0) continue;
            WEFT_RETURN_IF_ERROR(
                context->builder().SetParamGroup(static_cast<int>(param), groups[matrix ? 1 : 0]));
          }
          WEFT_RETURN_IF_ERROR(context->Finalize().status());
          WEFT_RETURN_IF_ERROR(LoadValues(*context));
          const StateCase setup{.ranks = kRanks};
          WEFT_RETURN_IF_ERROR(TrainSteps(*context, setup, rank, 0, 4));
          WEFT_RETURN_IF_ERROR(context->Verify());
          std::vector<char>& all = values[static_cast<size_t>(rank)];
          for (size_t param = 0; param < model.size(); ++param) {
            std::vector<char> one(model[param].count() * DtypeSize(model[param].dtype));
            WEFT_RETURN_IF_ERROR(context->Read(static_cast<int>(param), one.data()));
            all.insert(all.end(), one.begin(), one.end());
          }
          return absl::OkStatus();
        }));
    return values;
  };
  const auto expected = run(0);
  for (const size_t buffer_bytes : kBuffers)
    EXPECT_EQ(run(buffer_bytes), expected) << buffer_bytes;
}

// ---- plans ------------------------------------------------------------------------------------

// With params, what a step reads and writes is counted in the store.
TEST(OffloadedContext, MovesTheBytesOfItsPlanWithParams) {
  ExpectAllOk(RunRanks(
      GroupKind::kLocal, 2, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        test::MemoryStore* disk = nullptr;
        test::MemoryStore* reads = nullptr;
        ContextOptions options{.limits = {.bucket_bytes = 8192, .first_bucket_bytes = 2048}};
        options.offload = OnMemory(1, &disk, &reads);
        const StateCase setup{.preset = WEFT_SHARD_FULL_SHARD,
                              .ranks = 2,
                              .optimizer = StateOptimizer(WEFT_OPTIMIZER_ADAMW)};
        WEFT_ASSIGN_OR_RETURN(auto context, MakeTrained(group, setup, options));
        WEFT_ASSIGN_OR_RETURN(const weft_shard_plan_t plan, context->Plan());
        WEFT_ASSIGN_OR_RETURN(const auto reports, context->Report());
        const weft_shard_rank_report_t& report = reports[static_cast<size_t>(rank)];
        EXPECT_EQ(report.optimizer_bytes, plan.optimizer_bytes);
        EXPECT_EQ(report.param_bytes, 0u);
        EXPECT_EQ(plan.param_bytes, 0u);
        EXPECT_EQ(plan.checkpoint_value_bytes, 0u);
        WEFT_RETURN_IF_ERROR(LoadValues(*context));
        WEFT_RETURN_IF_ERROR(TrainSteps(*context, setup, rank, 0, 1));
        const uint64_t read_by_updates = disk->read_bytes();
        const uint64_t read_by_gathers = reads->read_bytes();
        const uint64_t written = disk->written_bytes();
        WEFT_RETURN_IF_ERROR(TrainSteps(*context, setup, rank, 1, 1));
        // Whole blocks are read, and what the next update begins with is read ahead.
        const uint64_t gathered = reads->read_bytes() - read_by_gathers;
        const uint64_t updated = disk->read_bytes() - read_by_updates;
        EXPECT_LE(updated, plan.offload_bytes + 4 * BlockStore::kAlignment * 16);
        // ADAMW reads what it writes; the rest is read by gathers.
        EXPECT_EQ(gathered + plan.offload_written_bytes, plan.offload_read_bytes);
        EXPECT_LE(disk->written_bytes() - written, plan.offload_written_bytes);
        EXPECT_EQ(reads->written_bytes(), 0u);
        EXPECT_EQ(disk->complaints(), "");
        return absl::OkStatus();
      }));
}

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
            options.offload = OnMemory(1, &disk);
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

// The same of params: at each of the reads of some steps.
TEST(OffloadedContext, ADiskThatFailsInAGatherEndsTheStepOnAllRanks) {
  bool struck = true;
  for (int k = 1; struck; k += kSampled ? 5 : 1) {
    const std::vector<absl::Status> ends = RunRanks(
        GroupKind::kLocal, 2, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
          test::MemoryStore* disk = nullptr;
          test::MemoryStore* reads = nullptr;
          ContextOptions options{.limits = {.bucket_bytes = 8192, .first_bucket_bytes = 2048},
                                 .timeout_ns = 60'000'000'000};
          options.offload = OnMemory(1, &disk, &reads);
          const StateCase setup{.preset = WEFT_SHARD_FULL_SHARD,
                                .ranks = 2,
                                .optimizer = StateOptimizer(WEFT_OPTIMIZER_ADAMW)};
          WEFT_ASSIGN_OR_RETURN(auto context, MakeTrained(group, setup, options));
          WEFT_RETURN_IF_ERROR(LoadValues(*context));
          if (rank == 1) reads->FailAt(k);
          const absl::Status trained = TrainSteps(*context, setup, rank, 0, 2);
          EXPECT_EQ(disk->complaints(), "");
          return trained;
        });
    struck = !ends[1].ok();
    if (!struck) break;
    EXPECT_EQ(ResultOf(ends[1]), WEFT_SYSTEM_ERROR) << ends[1];
    for (const absl::Status& end : ends) {
      EXPECT_THAT(std::string(end.message()), HasSubstr("a broken disk")) << k;
      EXPECT_THAT(std::string(end.message()), HasSubstr("gathering unit")) << k;
      EXPECT_THAT(std::string(end.message()), HasSubstr("go back to a checkpoint")) << k;
    }
  }
  EXPECT_FALSE(struck);
}

// A step is given up, and a context destroyed, while parts are being read.
TEST(OffloadedContext, AContextGoesWhilePartsAreRead) {
  for (int units = 1; units < 4; ++units) {
    (void)RunRanks(
        GroupKind::kLocal, 2, [&](int, std::shared_ptr<ProcessGroup> group) -> absl::Status {
          test::MemoryStore* disk = nullptr;
          test::MemoryStore* reads = nullptr;
          ContextOptions options{.limits = {.bucket_bytes = 8192, .first_bucket_bytes = 2048},
                                 .timeout_ns = 60'000'000'000,
                                 .prefetch = 3};
          options.offload = OnMemory(1, &disk, &reads);
          const StateCase setup{.preset = WEFT_SHARD_FULL_SHARD,
                                .ranks = 2,
                                .optimizer = StateOptimizer(WEFT_OPTIMIZER_ADAMW)};
          WEFT_ASSIGN_OR_RETURN(auto context, MakeTrained(group, setup, options));
          WEFT_RETURN_IF_ERROR(LoadValues(*context));
          WEFT_RETURN_IF_ERROR(context->StepBegin(WEFT_SHARD_TRAIN, 0));
          WEFT_RETURN_IF_ERROR(context->MicrobatchBegin(0, true));
          for (int unit = 0; unit < units; ++unit) {
            WEFT_RETURN_IF_ERROR(context->PreForward(unit));
            WEFT_RETURN_IF_ERROR(context->PostForward(unit));
          }
          return absl::OkStatus();
        });
  }
}

TEST(OffloadedContext, ParamsThatNobodyCanUpdateInAFileAreRefused) {
  for (const bool own : {false, true}) {
    ExpectAllOk(RunRanks(
        GroupKind::kLocal, 1, [&](int, std::shared_ptr<ProcessGroup> group) -> absl::Status {
          ContextOptions options;
          options.offload = {.directory = testing::TempDir(), .params = true};
          WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group, options));
          if (own) {
            WEFT_RETURN_IF_ERROR(context->SetOptimizer(StateOptimizer(WEFT_OPTIMIZER_OWN)));
          }
          const std::vector<ModelParam> model = {{"unit", "mine", {256}, WEFT_FLOAT32}};
          WEFT_RETURN_IF_ERROR(Declare(*context, model, PlacementOf(WEFT_SHARD_FULL_SHARD)));
          const absl::Status made = context->Finalize().status();
          EXPECT_EQ(ResultOf(made), own ? WEFT_UNSUPPORTED : WEFT_INVALID_USAGE) << made;
          EXPECT_THAT(std::string(made.message()), HasSubstr(own ? "mine" : "no optimizer"));
          return absl::OkStatus();
        }));
  }
}

// Params that were written make main copies anew, of windows that may still be being written.
TEST(OffloadedContext, NothingIsChangedWhileItIsWritten) {
  for (const weft_optimizer_kind_t kind : kOptimizers) {
    ExpectAllOk(RunRanks(
        GroupKind::kLocal, 1, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
          test::MemoryStore* disk = nullptr;
          ContextOptions options{.limits = {.bucket_bytes = 8192, .first_bucket_bytes = 2048}};
          options.offload = OnMemory(size_t{1} << 26, &disk);
          const StateCase setup{
              .preset = WEFT_SHARD_ZERO1, .ranks = 1, .optimizer = StateOptimizer(kind)};
          WEFT_ASSIGN_OR_RETURN(auto context, MakeTrained(group, setup, options));
          for (int step = 0; step < 4; ++step) {
            WEFT_RETURN_IF_ERROR(LoadValues(*context));
            WEFT_RETURN_IF_ERROR(TrainSteps(*context, setup, rank, step, 1));
          }
          WEFT_RETURN_IF_ERROR(context->Verify());
          EXPECT_EQ(disk->complaints(), "") << "kind " << kind;
          return absl::OkStatus();
        }));
  }
}

// What goes through all state reads, and writes, each byte once or so, however many params share a window.
TEST(OffloadedContext, LookingAtEverythingMovesItOnce) {
  constexpr int kParams = 400;
  ExpectAllOk(
      RunRanks(GroupKind::kLocal, 1, [&](int, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        test::MemoryStore* disk = nullptr;
        ContextOptions options;
        options.offload = OnMemory(size_t{1} << 19, &disk);
        WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group, options));
        WEFT_RETURN_IF_ERROR(context->SetOptimizer(StateOptimizer(WEFT_OPTIMIZER_ADAMW)));
        std::vector<ModelParam> model;
        for (int i = 0; i < kParams; ++i)
          model.push_back({"unit", StrCat("p", i), {256}, WEFT_BFLOAT16});
        WEFT_RETURN_IF_ERROR(Declare(*context, model, PlacementOf(WEFT_SHARD_NO_SHARD)));
        WEFT_RETURN_IF_ERROR(context->Finalize().status());
        WEFT_ASSIGN_OR_RETURN(const weft_shard_plan_t plan, context->Plan());
        { WEFT_ASSIGN_OR_RETURN(const auto hold, context->state().Hold()); }
        EXPECT_LE(disk->written_bytes(), 2 * plan.offload_bytes) << "main copies, made for a hold";
        EXPECT_LE(disk->read_bytes(), 2 * plan.offload_bytes) << "main copies, made for a hold";
        const Scenario scenario{.seed = 5, .ranks = 1};
        WEFT_RETURN_IF_ERROR(RunStep(*context, model, scenario, 0, 0).status());
        WEFT_RETURN_IF_ERROR(context->OptimizerStep(StateUpdate()).status());
        WEFT_RETURN_IF_ERROR(context->StepEnd());
        const uint64_t read = disk->read_bytes();
        WEFT_RETURN_IF_ERROR(context->Verify());
        EXPECT_LE(disk->read_bytes() - read, 2 * plan.offload_bytes) << "verify";
        EXPECT_EQ(disk->complaints(), "");
        return absl::OkStatus();
      }));
}

// It is not the checkpoints' fault.
TEST(OffloadedContext, ADiskThatFailsInALoadIsNotADamagedCheckpoint) {
  test::SimFiles files;
  const CheckpointOptions to{.directory = "/c", .timeout_ns = 60'000'000'000};
  ExpectAllOk(RunRanks(
      GroupKind::kLocal, 1, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        test::MemoryStore* disk = nullptr;
        ContextOptions options{.limits = {.bucket_bytes = 8192, .first_bucket_bytes = 2048}};
        options.offload = OnMemory(size_t{1} << 17, &disk);
        const StateCase setup{.preset = WEFT_SHARD_ZERO1,
                              .ranks = 1,
                              .optimizer = StateOptimizer(WEFT_OPTIMIZER_ADAMW)};
        WEFT_ASSIGN_OR_RETURN(auto context, MakeTrained(group, setup, options));
        WEFT_ASSIGN_OR_RETURN(auto checkpoint, Checkpoint::Create(group, files, to));
        WEFT_RETURN_IF_ERROR(checkpoint->AddContext("", *context));
        WEFT_RETURN_IF_ERROR(LoadValues(*context));
        for (int step = 0; step < 2; ++step) {
          WEFT_RETURN_IF_ERROR(TrainSteps(*context, setup, rank, step, 1));
          WEFT_RETURN_IF_ERROR(checkpoint->Save(step + 1, Checkpoint::How::kForeground));
        }
        disk->FailAt(3);
        const absl::Status loaded = checkpoint->Load(-1, WEFT_SHARD_STATE_ALL).status();
        EXPECT_EQ(ResultOf(loaded), WEFT_SYSTEM_ERROR) << loaded;
        EXPECT_THAT(std::string(loaded.message()), testing::Not(HasSubstr("is whole")));
        return absl::OkStatus();
      }));
}

// Who waits for a checkpoint to have read its state learns that another rank has ended the step.
TEST(OffloadedContext, AnUpdateThatWaitsForAHoldLearnsOfAnAbort) {
  RunRanks(GroupKind::kLocal, 2,
           [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
             ContextOptions options{.limits = {.bucket_bytes = 8192, .first_bucket_bytes = 2048}};
             options.timeout_ns = 60'000'000'000;
             const StateCase setup{.preset = WEFT_SHARD_ZERO1,
                                   .ranks = 2,
                                   .optimizer = StateOptimizer(WEFT_OPTIMIZER_ADAMW)};
             WEFT_ASSIGN_OR_RETURN(auto context, MakeTrained(group, setup, options));
             WEFT_RETURN_IF_ERROR(LoadValues(*context));
             std::shared_ptr<const void> hold;
             if (rank == 0) {
               WEFT_ASSIGN_OR_RETURN(hold, context->state().Hold());
             }
             std::thread aborts;
             if (rank == 1) {
               aborts = std::thread([&] {
                 std::this_thread::sleep_for(std::chrono::seconds(1));
                 (void)context->AbortStep("on purpose");
               });
             }
             const auto begin = std::chrono::steady_clock::now();
             const absl::Status trained = TrainSteps(*context, setup, rank, 0, 2);
             if (aborts.joinable()) aborts.join();
             EXPECT_FALSE(trained.ok());
             EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30))
                 << "rank " << rank << ": " << trained;
             EXPECT_THAT(std::string(trained.message()), HasSubstr("on purpose")) << rank;
             return trained;
           });
}

TEST(OffloadedContext, ADirectoryThatIsNotThereIsNamedOnAllRanks) {
  const std::vector<absl::Status> ends = RunRanks(
      GroupKind::kLocal, 2, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        ContextOptions options;
        options.offload.directory = rank == 1 ? "/proc/none/at/all" : testing::TempDir();
        const StateCase setup{.ranks = 2, .optimizer = StateOptimizer(WEFT_OPTIMIZER_ADAMW)};
        return MakeTrained(group, setup, options).status();
      });
  EXPECT_EQ(ResultOf(ends[0]), WEFT_REMOTE_ERROR) << ends[0];
  EXPECT_THAT(std::string(ends[1].message()), HasSubstr("/proc/none/at/all"));
}

}  // namespace
}  // namespace weft::context_test
