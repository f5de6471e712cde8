// Failures: illegal calls leave no trace, an abort releases the others, nothing leaks.
#include <chrono>
#include <future>
#include <string>
#include <thread>

#include "base/status.h"
#include "base/wait.h"
#include "comm/node/heap.h"
#include "gmock/gmock.h"
#include "tests/shard/ranks.h"
#include "tests/shard/small_model.h"

namespace weft::failure_test {
namespace {

using testing::HasSubstr;

constexpr GroupKind kBothKinds[] = {GroupKind::kLocal, GroupKind::kReference};

absl::StatusOr<std::unique_ptr<Context>> FinalizedUnits(std::shared_ptr<ProcessGroup> group,
                                                        int units,
                                                        const ContextOptions& options = {}) {
  WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(std::move(group), options));
  for (int i = 0; i < units; ++i) {
    WEFT_RETURN_IF_ERROR(AddUnitWithParam(*context, std::string(1, 'a' + i), {100}).status());
  }
  WEFT_RETURN_IF_ERROR(context->Finalize().status());
  return context;
}

absl::Status BackwardUnit(Context& context, int unit) {
  WEFT_RETURN_IF_ERROR(context.PreForward(unit));
  WEFT_RETURN_IF_ERROR(context.PostForward(unit));
  WEFT_RETURN_IF_ERROR(context.PreBackward(unit));
  WEFT_RETURN_IF_ERROR(context.GradReady(unit, nullptr));
  return context.PostBackward(unit);
}

absl::Status BeginLastMicrobatch(Context& context) {
  WEFT_RETURN_IF_ERROR(context.StepBegin(WEFT_SHARD_TRAIN, 0));
  return context.MicrobatchBegin(0, true);
}

TEST(IllegalCalls, SendNothingAndLeaveTheContextUsable) {
  for (const GroupKind kind : kBothKinds) {
    // Only rank 1 makes them: had they sent anything, ranks would no longer match.
    ExpectAllOk(
        RunRanks(kind, 2, [](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
          WEFT_ASSIGN_OR_RETURN(auto context, FinalizedUnits(group, 2));
          const auto refused = [&](const absl::Status& status) {
            EXPECT_EQ(ResultOf(status), WEFT_BAD_STATE) << status;
            EXPECT_THAT(std::string(status.message()), HasSubstr("last events"));
          };
          for (int step = 0; step < 2; ++step) {
            if (rank == 1) {
              refused(context->GradReady(0, nullptr));
              refused(context->Finish().status());
            }
            WEFT_RETURN_IF_ERROR(BeginLastMicrobatch(*context));
            if (rank == 1) {
              refused(context->PreBackward(1));
              refused(context->StepBegin(WEFT_SHARD_TRAIN, 0));
              refused(context->Verify());
              refused(context->Broadcast(0));
            }
            WEFT_RETURN_IF_ERROR(BackwardUnit(*context, 1));
            if (rank == 1) {
              refused(context->GradReady(1, nullptr));
              refused(context->GradReady(0, nullptr));
              refused(context->Finish().status());
            }
            WEFT_RETURN_IF_ERROR(BackwardUnit(*context, 0));
            WEFT_RETURN_IF_ERROR(context->MicrobatchEnd());
            if (rank == 1) {
              refused(context->MicrobatchEnd());
              refused(context->StepEnd());
            }
            WEFT_RETURN_IF_ERROR(context->Finish().status());
            if (rank == 1) refused(context->Finish().status());
            WEFT_RETURN_IF_ERROR(context->StepEnd());
          }
          return absl::OkStatus();
        }));
  }
}

// The reductions of the micro-batch before are under way, and rank 1 comes to them when rank 0 has been refused.
TEST(IllegalCalls, WaitForNobody) {
  for (const GroupKind kind : kBothKinds) {
    std::promise<void> was_refused;
    std::shared_future<void> told = was_refused.get_future().share();
    const auto body = [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
      WEFT_ASSIGN_OR_RETURN(auto context,
                            FinalizedUnits(group, 2, {.accumulation = WEFT_SHARD_REDUCE_EVERY}));
      WEFT_RETURN_IF_ERROR(context->StepBegin(WEFT_SHARD_TRAIN, 0));
      WEFT_RETURN_IF_ERROR(context->MicrobatchBegin(0, false));
      if (rank == 1) told.wait_for(std::chrono::seconds(60));
      WEFT_RETURN_IF_ERROR(BackwardUnit(*context, 1));
      WEFT_RETURN_IF_ERROR(BackwardUnit(*context, 0));
      WEFT_RETURN_IF_ERROR(context->MicrobatchEnd());
      if (rank == 0) {
        EXPECT_EQ(ResultOf(context->MicrobatchEnd()), WEFT_BAD_STATE);
      }
      WEFT_RETURN_IF_ERROR(context->MicrobatchBegin(1, true));
      if (rank == 0) {
        EXPECT_EQ(ResultOf(context->PreBackward(0)), WEFT_BAD_STATE);
        was_refused.set_value();
      }
      WEFT_RETURN_IF_ERROR(BackwardUnit(*context, 1));
      WEFT_RETURN_IF_ERROR(context->MicrobatchEnd());
      WEFT_RETURN_IF_ERROR(context->Finish().status());
      return context->StepEnd();
    };
    ExpectAllOk(RunRanks(kind, 2, body));
  }
}

TEST(GradReady, RefusesAGradientThatOverlapsItsOwnMemory) {
  ExpectAllOk(
      RunRanks(GroupKind::kLocal, 1, [](int, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(auto context, FinalizedUnits(group, 1));
        WEFT_ASSIGN_OR_RETURN(const ParamView view, context->View(0));
        auto* const grad = static_cast<float*>(view.grad);
        WEFT_RETURN_IF_ERROR(BeginLastMicrobatch(*context));
        WEFT_RETURN_IF_ERROR(context->PreForward(0));
        WEFT_RETURN_IF_ERROR(context->PostForward(0));
        WEFT_RETURN_IF_ERROR(context->PreBackward(0));
        for (const float* bad : {grad, grad + 99}) {
          EXPECT_EQ(ResultOf(context->GradReady(0, bad)), WEFT_INVALID_ARGUMENT);
        }
        WEFT_RETURN_IF_ERROR(context->GradReady(0, grad + 100));
        WEFT_RETURN_IF_ERROR(context->PostBackward(0));
        WEFT_RETURN_IF_ERROR(context->MicrobatchEnd());
        return context->Finish().status();
      }));
}

TEST(Eval, SendsNothingAndKeepsGradients) {
  ExpectAllOk(RunRanks(
      GroupKind::kLocal, 2, [](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(auto context, FinalizedUnits(group, 1));
        WEFT_ASSIGN_OR_RETURN(const ParamView view, context->View(0));
        *static_cast<float*>(view.grad) = 5;
        // Ranks evaluate a different number of batches.
        WEFT_RETURN_IF_ERROR(context->StepBegin(WEFT_SHARD_EVAL, 0));
        for (int i = 0; i < 1 + rank; ++i) {
          WEFT_RETURN_IF_ERROR(context->MicrobatchBegin(i, i == rank));
          WEFT_RETURN_IF_ERROR(context->PreForward(0));
          WEFT_RETURN_IF_ERROR(context->PostForward(0));
          WEFT_RETURN_IF_ERROR(context->MicrobatchEnd());
        }
        if (rank == 1) {
          WEFT_ASSIGN_OR_RETURN(const weft_shard_step_result_t result, context->Finish());
          EXPECT_EQ(result.reduced_bytes, 0u);
        }
        WEFT_RETURN_IF_ERROR(context->StepEnd());
        EXPECT_EQ(*static_cast<float*>(view.grad), 5);
        return context->Verify();
      }));
}

// Rank `aborter` stops in the middle of a step; returns what the others' calls said.
std::vector<absl::Status> AbortMidStep(GroupKind kind, int size, int aborter, bool overlap) {
  return RunRanks(kind, size, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
    WEFT_ASSIGN_OR_RETURN(auto context,
                          FinalizedUnits(group, 3,
                                         {.limits = {.bucket_bytes = 1, .first_bucket_bytes = 1},
                                          .overlap = overlap}));
    WEFT_ASSIGN_OR_RETURN(const ParamView view, context->View(2));
    *static_cast<float*>(view.data) = 7;
    WEFT_RETURN_IF_ERROR(BeginLastMicrobatch(*context));
    const absl::Status first = BackwardUnit(*context, 2);
    if (rank == aborter) {
      WEFT_RETURN_IF_ERROR(context->AbortStep("batch 17 is corrupt"));
      const absl::Status own = BackwardUnit(*context, 1);
      EXPECT_EQ(*static_cast<float*>(view.data), 7) << "parameters are untouched";
      EXPECT_TRUE(context->AbortStep("again").ok());
      return own;
    }
    WEFT_RETURN_IF_ERROR(first);
    WEFT_RETURN_IF_ERROR(BackwardUnit(*context, 1));
    WEFT_RETURN_IF_ERROR(BackwardUnit(*context, 0));
    WEFT_RETURN_IF_ERROR(context->MicrobatchEnd());
    const absl::Status status = context->Finish().status();
    EXPECT_EQ(*static_cast<float*>(view.data), 7) << "parameters are untouched";
    EXPECT_EQ(ResultOf(context->StepEnd()), ResultOf(status)) << "no step after a failure";
    EXPECT_EQ(ResultOf(context->Verify()), ResultOf(status));
    return status;
  });
}

TEST(AbortStep, ReleasesTheOthersNamingRankAndReason) {
  for (const GroupKind kind : kBothKinds) {
    for (const int size : {2, 3, 8}) {
      for (const bool overlap : {true, false}) {
        SCOPED_TRACE(std::string(GroupKindName(kind)) + " " + std::to_string(size));
        const int64_t begin_ns = MonotonicNs();
        const std::vector<absl::Status> statuses = AbortMidStep(kind, size, size - 1, overlap);
        // The groups' deadline is 60 s; released long before that.
        EXPECT_LT(MonotonicNs() - begin_ns, int64_t{30'000'000'000});
        for (const absl::Status& status : statuses) {
          EXPECT_EQ(ResultOf(status), WEFT_ABORTED) << status;
          EXPECT_EQ(FieldsOf(status).rank, size - 1);
          EXPECT_THAT(std::string(status.message()), HasSubstr("batch 17 is corrupt"));
        }
        EXPECT_EQ(ProcessHeap().live_bytes(), 0u);
      }
    }
  }
}

TEST(AbortStep, MayComeFromAnotherThreadWhileFinishWaits) {
  std::promise<void> aborted;
  const std::vector<absl::Status> statuses = RunRanks(
      GroupKind::kLocal, 2, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(auto context, FinalizedUnits(group, 1));
        WEFT_RETURN_IF_ERROR(BeginLastMicrobatch(*context));
        if (rank == 1) {
          // Never reduces; leaves when the other one has aborted.
          aborted.get_future().wait();
          return group->error();
        }
        WEFT_RETURN_IF_ERROR(BackwardUnit(*context, 0));
        WEFT_RETURN_IF_ERROR(context->MicrobatchEnd());
        std::thread aborter([&] {
          EXPECT_TRUE(context->AbortStep("stop").ok());
          aborted.set_value();
        });
        const absl::Status status = context->Finish().status();
        aborter.join();
        return status;
      });
  for (const absl::Status& status : statuses)
    EXPECT_EQ(ResultOf(status), WEFT_ABORTED) << status;
}

TEST(Destroy, InTheMiddleOfReductionsReleasesTheOthers) {
  for (const GroupKind kind : kBothKinds) {
    std::promise<void> gone;
    const std::vector<absl::Status> statuses =
        RunRanks(kind, 2, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
          WEFT_ASSIGN_OR_RETURN(auto context, FinalizedUnits(group, 1));
          WEFT_RETURN_IF_ERROR(BeginLastMicrobatch(*context));
          if (rank == 0) {
            WEFT_RETURN_IF_ERROR(BackwardUnit(*context, 0));
            context.reset();  // its all-reduce was never met
            gone.set_value();
            return absl::OkStatus();
          }
          gone.get_future().wait();
          absl::Status status = BackwardUnit(*context, 0);
          if (!status.ok()) return status;
          WEFT_RETURN_IF_ERROR(context->MicrobatchEnd());
          return context->Finish().status();
        });
    EXPECT_TRUE(statuses[0].ok()) << statuses[0];
    EXPECT_EQ(ResultOf(statuses[1]), WEFT_ABORTED) << statuses[1];
    EXPECT_THAT(std::string(statuses[1].message()), HasSubstr("its context was destroyed"));
    EXPECT_EQ(ProcessHeap().live_bytes(), 0u);
  }
}

TEST(Destroy, AfterCompletedReductionsLeavesTheGroupAlone) {
  for (const GroupKind kind : kBothKinds) {
    ExpectAllOk(RunRanks(kind, 2, [](int, std::shared_ptr<ProcessGroup> group) -> absl::Status {
      WEFT_ASSIGN_OR_RETURN(auto context, FinalizedUnits(group, 1));
      WEFT_RETURN_IF_ERROR(BeginLastMicrobatch(*context));
      WEFT_RETURN_IF_ERROR(BackwardUnit(*context, 0));
      WEFT_RETURN_IF_ERROR(context->MicrobatchEnd());
      WEFT_RETURN_IF_ERROR(context->Finish().status());
      context.reset();
      return group->Run({.kind = OpKind::kBarrier});
    }));
  }
}

TEST(Destroy, BetweenStepsLetsTheGathersOfUpdatedParamsEnd) {
  for (const GroupKind kind : kBothKinds) {
    std::promise<void> leaving;
    ExpectAllOk(
        RunRanks(kind, 2, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
          WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group));
          WEFT_ASSIGN_OR_RETURN(const int unit,
                                context->BeginUnit("u", PlacementOf(WEFT_SHARD_ZERO1)));
          const int64_t shape = 1000;
          WEFT_RETURN_IF_ERROR(context->AddParam(unit, "w", &shape, 1, WEFT_FLOAT32).status());
          WEFT_RETURN_IF_ERROR(context->SealUnit(unit));
          WEFT_RETURN_IF_ERROR(context->Finalize().status());
          if (rank == 0) {
            WEFT_RETURN_IF_ERROR(context->Updated());
            leaving.set_value();
            context.reset();
          } else {
            leaving.get_future().wait();
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            WEFT_RETURN_IF_ERROR(context->Updated());
            context.reset();
          }
          return group->Run({.kind = OpKind::kBarrier});
        }));
  }
}

TEST(Destroy, ReturnsAllMemory) {
  const std::vector<ModelParam> model = SmallModel();
  for (int round = 0; round < 3; ++round) {
    ExpectAllOk(RunRanks(
        GroupKind::kReference, 2,
        [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
          WEFT_ASSIGN_OR_RETURN(auto context,
                                MakeContext(group, {.accumulation = WEFT_SHARD_REDUCE_EVERY}));
          WEFT_RETURN_IF_ERROR(Declare(*context, model));
          if (round == 0) return absl::OkStatus();  // never finalized
          WEFT_RETURN_IF_ERROR(context->Finalize().status());
          EXPECT_GT(ProcessHeap().live_bytes(), 0u);
          if (round == 1) return absl::OkStatus();  // no step
          return RunStep(*context, model, {.ranks = 2, .microbatches = 2}, rank, 0).status();
        }));
    EXPECT_EQ(ProcessHeap().live_bytes(), 0u);
  }
}

TEST(StepBegin, ReportsAGroupThatFailedMeanwhile) {
  std::promise<void> aborted;
  const std::vector<absl::Status> statuses = RunRanks(
      GroupKind::kReference, 2, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(auto context, FinalizedUnits(group, 1));
        WEFT_RETURN_IF_ERROR(group->Run({.kind = OpKind::kBarrier}));
        if (rank == 1) {
          group->Abort("unplugged");
          aborted.set_value();
        } else {
          aborted.get_future().wait();
        }
        return context->StepBegin(WEFT_SHARD_TRAIN, 0);
      });
  for (const absl::Status& status : statuses) {
    EXPECT_EQ(ResultOf(status), WEFT_ABORTED);
    EXPECT_THAT(std::string(status.message()), HasSubstr("unplugged"));
  }
}

}  // namespace
}  // namespace weft::failure_test
