// Features of shard contexts together: tied params, two forms, joining, places, plans.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/text.h"
#include "gtest/gtest.h"
#include "shard/layout/mesh.h"
#include "shard/layout/placement.h"
#include "tests/shard/ranks.h"
#include "tests/shard/small_model.h"

namespace weft::combinations_test {
namespace {

constexpr int kEmbed = 0;
constexpr int kBody = 1;
constexpr int kHead = 2;
constexpr int64_t kCount = 300;

// embed has table (param 0), head uses it; body has param 1, head param 2.
absl::StatusOr<std::unique_ptr<Context>> MakeTied(std::shared_ptr<ProcessGroup> group,
                                                  const ContextOptions& options,
                                                  weft_shard_preset_t preset) {
  WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(std::move(group), options));
  for (const char* const name : {"embed", "body", "head"}) {
    WEFT_ASSIGN_OR_RETURN(const int unit, context->BeginUnit(name, PlacementOf(preset)));
    WEFT_RETURN_IF_ERROR(
        context->AddParam(unit, StrCat(name, ".weight"), &kCount, 1, WEFT_FLOAT32).status());
    if (unit == kHead) WEFT_RETURN_IF_ERROR(context->TieParam(unit, "head.table", 0));
    WEFT_RETURN_IF_ERROR(context->SealUnit(unit));
  }
  WEFT_RETURN_IF_ERROR(context->Finalize().status());
  return context;
}

absl::Status Use(Context& context, int unit) {
  WEFT_RETURN_IF_ERROR(context.PreForward(unit));
  return context.PostForward(unit);
}

// After the backward of the last micro-batch.
absl::Status EndStep(Context& context) {
  WEFT_RETURN_IF_ERROR(context.MicrobatchEnd());
  WEFT_RETURN_IF_ERROR(context.Finish().status());
  return context.StepEnd();
}

TEST(Combinations, AnUnshardedUnitsTiedParamIsThereUntilReshard) {
  const auto body = [&](int, std::shared_ptr<ProcessGroup> group) -> absl::Status {
    WEFT_ASSIGN_OR_RETURN(auto context, MakeTied(group, {}, WEFT_SHARD_FULL_SHARD));
    WEFT_RETURN_IF_ERROR(context->StepBegin(WEFT_SHARD_EVAL, 0));
    WEFT_RETURN_IF_ERROR(context->MicrobatchBegin(0, true));
    WEFT_RETURN_IF_ERROR(context->UnshardStart(kHead));
    WEFT_RETURN_IF_ERROR(context->UnshardWait(kHead));
    EXPECT_TRUE(context->View(0).ok()) << context->View(0).status();
    WEFT_RETURN_IF_ERROR(Use(*context, kEmbed));
    EXPECT_TRUE(context->View(0).ok()) << context->View(0).status();
    WEFT_RETURN_IF_ERROR(context->Reshard(kHead));
    WEFT_RETURN_IF_ERROR(context->MicrobatchEnd());
    return context->StepEnd();
  };
  ExpectAllOk(RunRanks(GroupKind::kLocal, 2, body));
}

// "BAD_STATE ... in the reducing micro-batch": the first step says so, the second one says Ok and has not reduced.
TEST(Combinations, ReduceWaitOfAMicrobatchThatDoesNotReduceIsRefused) {
  for (const weft_shard_preset_t preset : {WEFT_SHARD_NO_SHARD, WEFT_SHARD_FULL_SHARD}) {
    const auto body = [&](int, std::shared_ptr<ProcessGroup> group) -> absl::Status {
      WEFT_ASSIGN_OR_RETURN(auto context, MakeTied(group, {.average = false}, preset));
      for (int step = 0; step < 2; ++step) {
        WEFT_RETURN_IF_ERROR(context->StepBegin(WEFT_SHARD_TRAIN, 0));
        for (int m = 0; m < 2; ++m) {
          WEFT_RETURN_IF_ERROR(context->MicrobatchBegin(m, m == 1));
          WEFT_RETURN_IF_ERROR(Use(*context, kBody));
          WEFT_RETURN_IF_ERROR(context->PreBackward(kBody));
          const std::vector<float> ones(kCount, 1.0f);
          WEFT_RETURN_IF_ERROR(context->GradReady(kBody, ones.data()));
          WEFT_RETURN_IF_ERROR(context->PostBackward(kBody));
          if (m == 0) {
            EXPECT_EQ(ResultOf(context->ReduceWait(kBody)), WEFT_BAD_STATE) << "step " << step;
          }
          WEFT_RETURN_IF_ERROR(context->MicrobatchEnd());
        }
        WEFT_RETURN_IF_ERROR(context->Finish().status());
        WEFT_RETURN_IF_ERROR(context->StepEnd());
      }
      return absl::OkStatus();
    };
    ExpectAllOk(RunRanks(GroupKind::kLocal, 2, body));
  }
}

TEST(Combinations, TheOwnersPostForwardWithoutItsPreForwardIsRefused) {
  const auto body = [&](int, std::shared_ptr<ProcessGroup> group) -> absl::Status {
    WEFT_ASSIGN_OR_RETURN(auto context, MakeTied(group, {}, WEFT_SHARD_FULL_SHARD));
    WEFT_RETURN_IF_ERROR(context->StepBegin(WEFT_SHARD_EVAL, 0));
    WEFT_RETURN_IF_ERROR(context->MicrobatchBegin(0, true));
    WEFT_RETURN_IF_ERROR(context->PreForward(kHead));
    EXPECT_EQ(ResultOf(context->PostForward(kEmbed)), WEFT_BAD_STATE);
    EXPECT_TRUE(context->View(0).ok()) << context->View(0).status();
    EXPECT_TRUE(context->PostForward(kHead).ok());
    WEFT_RETURN_IF_ERROR(context->MicrobatchEnd());
    return context->StepEnd();
  };
  ExpectAllOk(RunRanks(GroupKind::kLocal, 2, body));
}

TEST(Combinations, TheOwnersPostBackwardWithoutItsPreBackwardIsRefused) {
  const auto body = [&](int, std::shared_ptr<ProcessGroup> group) -> absl::Status {
    WEFT_ASSIGN_OR_RETURN(auto context, MakeTied(group, {}, WEFT_SHARD_FULL_SHARD));
    WEFT_RETURN_IF_ERROR(context->StepBegin(WEFT_SHARD_TRAIN, 0));
    WEFT_RETURN_IF_ERROR(context->MicrobatchBegin(0, true));
    WEFT_RETURN_IF_ERROR(Use(*context, kHead));
    WEFT_RETURN_IF_ERROR(context->PreBackward(kHead));
    EXPECT_EQ(ResultOf(context->PostBackward(kEmbed)), WEFT_BAD_STATE);
    const absl::Status ended = context->PostBackward(kHead);
    EXPECT_TRUE(ended.ok()) << ended;
    return EndStep(*context);
  };
  ExpectAllOk(RunRanks(GroupKind::kLocal, 2, body));
}

// "BAD_STATE between the first pre_ call of a micro-batch and its end."
TEST(Combinations, SamplesAreNotComparedInBackwardAfterUnshard) {
  const auto body = [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
    ContextOptions options{.limits = {.bucket_bytes = 512, .first_bucket_bytes = 512}};
    options.timeout_ns = 5000000000;
    WEFT_ASSIGN_OR_RETURN(auto context, MakeTied(group, options, WEFT_SHARD_FULL_SHARD));
    WEFT_RETURN_IF_ERROR(context->StepBegin(WEFT_SHARD_TRAIN, 0));
    WEFT_RETURN_IF_ERROR(context->MicrobatchBegin(0, true));
    WEFT_RETURN_IF_ERROR(Use(*context, kBody));
    WEFT_RETURN_IF_ERROR(Use(*context, kHead));
    WEFT_RETURN_IF_ERROR(context->PreBackward(kHead));
    const std::vector<float> ones(kCount, 1.0f);
    if (rank == 0) WEFT_RETURN_IF_ERROR(context->GradReady(kHead, ones.data()));
    WEFT_RETURN_IF_ERROR(context->UnshardStart(kBody));
    const int sample = rank;
    const absl::Status checked = context->CheckSamples(&sample, sizeof(sample));
    EXPECT_EQ(ResultOf(checked), WEFT_BAD_STATE) << checked;
    WEFT_RETURN_IF_ERROR(context->UnshardWait(kBody));
    WEFT_RETURN_IF_ERROR(context->Reshard(kBody));
    WEFT_RETURN_IF_ERROR(context->PostBackward(kHead));
    return EndStep(*context);
  };
  ExpectAllOk(RunRanks(GroupKind::kLocal, 2, body));
}

// Evaluation needs no finish, and is the usual thing to run out of data in.
TEST(Combinations, JoinInEvaluationThatIsNotFinished) {
  const auto body = [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
    ContextOptions options{.prefetch = 0, .uneven = true};
    options.timeout_ns = 5000000000;
    WEFT_ASSIGN_OR_RETURN(auto context, MakeTied(group, options, WEFT_SHARD_FULL_SHARD));
    for (int param = 0; param < 3; ++param) {
      const std::vector<float> values(kCount, static_cast<float>(param + 1));
      WEFT_RETURN_IF_ERROR(context->Load(param, values.data(), Context::kEveryRank));
    }
    const auto check = [&](int step, int param) -> absl::Status {
      WEFT_ASSIGN_OR_RETURN(const ParamView view, context->View(param));
      const auto* const data = static_cast<const float*>(view.data);
      EXPECT_EQ(std::count(data, data + view.count, static_cast<float>(param + 1)), kCount)
          << "param " << param << " in step " << step << " on rank " << rank;
      return absl::OkStatus();
    };
    for (int step = 0; step < 3; ++step) {
      WEFT_RETURN_IF_ERROR(context->StepBegin(WEFT_SHARD_EVAL, 0));
      if (step == 2 && rank == 1) {
        WEFT_RETURN_IF_ERROR(context->Join().status());
      } else {
        WEFT_RETURN_IF_ERROR(context->MicrobatchBegin(0, true));
        for (const int unit : {kEmbed, kHead, kBody}) {
          WEFT_RETURN_IF_ERROR(context->PreForward(unit));
          WEFT_RETURN_IF_ERROR(check(step, unit));
          WEFT_RETURN_IF_ERROR(context->PostForward(unit));
        }
        WEFT_RETURN_IF_ERROR(context->MicrobatchEnd());
      }
      WEFT_RETURN_IF_ERROR(context->StepEnd());
    }
    return absl::OkStatus();
  };
  ExpectAllOk(RunRanks(GroupKind::kLocal, 2, body));
}

// Without overlap reductions start in finish: the message must not blame a unit that is complete.
TEST(Combinations, ReduceWaitWithoutOverlapSaysWhy) {
  const auto body = [&](int, std::shared_ptr<ProcessGroup> group) -> absl::Status {
    WEFT_ASSIGN_OR_RETURN(auto context, MakeTied(group, {.overlap = false}, WEFT_SHARD_ZERO1));
    WEFT_RETURN_IF_ERROR(context->StepBegin(WEFT_SHARD_TRAIN, 0));
    WEFT_RETURN_IF_ERROR(context->MicrobatchBegin(0, true));
    for (const int unit : {kEmbed, kBody, kHead})
      WEFT_RETURN_IF_ERROR(Use(*context, unit));
    for (const int unit : {kHead, kBody, kEmbed}) {
      WEFT_RETURN_IF_ERROR(context->PreBackward(unit));
      WEFT_RETURN_IF_ERROR(context->PostBackward(unit));
    }
    const absl::Status waited = context->ReduceWait(kHead);
    EXPECT_EQ(ResultOf(waited), WEFT_BAD_STATE);
    EXPECT_NE(waited.message().find("does not overlap"), absl::string_view::npos) << waited;
    return EndStep(*context);
  };
  ExpectAllOk(RunRanks(GroupKind::kLocal, 2, body));
}

// One unit of 300 elements, whole but for gradients and optimizer, which are cut within a replica.
absl::StatusOr<std::unique_ptr<Context>> MakeWholeInReplicas(std::shared_ptr<ProcessGroup> group,
                                                             const std::vector<int>& axes) {
  WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(std::move(group), {}, axes));
  WEFT_ASSIGN_OR_RETURN(
      const Placement placement,
      Replace(PlacementOf(WEFT_SHARD_NO_SHARD), {.params = WEFT_SHARD_PLACE_WHOLE,
                                                 .gradients = WEFT_SHARD_PLACE_SHARDED_INNER,
                                                 .optimizer = WEFT_SHARD_PLACE_SHARDED_INNER}));
  WEFT_ASSIGN_OR_RETURN(const int unit, context->BeginUnit("unit", placement));
  WEFT_RETURN_IF_ERROR(context->AddParam(unit, "weight", &kCount, 1, WEFT_FLOAT32).status());
  WEFT_RETURN_IF_ERROR(context->SealUnit(unit));
  WEFT_RETURN_IF_ERROR(context->Finalize().status());
  return context;
}

// "Copies all parameters that rest whole from mesh rank `root` to all ranks."
TEST(Combinations, BroadcastCopiesWhatRestsWholeAlsoInReplicas) {
  const auto body = [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
    WEFT_ASSIGN_OR_RETURN(auto context, MakeWholeInReplicas(group, {2, 2}));
    WEFT_ASSIGN_OR_RETURN(const ParamView view, context->View(0));
    auto* const data = static_cast<float*>(view.data);
    std::fill_n(data, view.count, static_cast<float>(rank + 1));
    const absl::Status status = context->Broadcast(0);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(std::count(data, data + view.count, 1.0f), kCount) << "on rank " << rank;
    return absl::OkStatus();
  };
  ExpectAllOk(RunRanks(GroupKind::kLocal, 4, body));
}

// Each rank has a copy of all of it, also within a replica.
TEST(Combinations, VerifyComparesWhatRestsWholeWithinAReplica) {
  for (const std::vector<int>& axes : {std::vector<int>{1, 4}, std::vector<int>{2, 2}}) {
    const auto body = [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
      WEFT_ASSIGN_OR_RETURN(auto context, MakeWholeInReplicas(group, axes));
      WEFT_ASSIGN_OR_RETURN(const ParamView view, context->View(0));
      // The ranks at the same place of their replicas have the same.
      static_cast<float*>(view.data)[7] = static_cast<float>(rank % axes[1]);
      EXPECT_EQ(ResultOf(context->Verify()), WEFT_MISMATCH) << axes[0] << " x " << axes[1];
      return absl::OkStatus();
    };
    ExpectAllOk(RunRanks(GroupKind::kLocal, 4, body));
  }
}

// weft_shard_context_report asks for this before it knows that nobody is there.
TEST(Combinations, TheRankCountOfADryMeshIsItsSize) {
  auto mesh = Mesh::CreateDry({{"data", 4}}, 0);
  ASSERT_TRUE(mesh.ok()) << mesh.status();
  auto context = Context::Create(*mesh, {});
  ASSERT_TRUE(context.ok()) << context.status();
  EXPECT_EQ((*context)->rank_count(), 4);
}

// What this rank has after the micro-batch is not its sum: there is nothing to wait for.
void ExpectNothingToWaitFor(const ContextOptions& options, weft_shard_preset_t preset) {
  const auto body = [&](int, std::shared_ptr<ProcessGroup> group) -> absl::Status {
    WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group, options, {2, 2}));
    WEFT_ASSIGN_OR_RETURN(const int unit, context->BeginUnit("unit", PlacementOf(preset)));
    WEFT_RETURN_IF_ERROR(context->AddParam(unit, "weight", &kCount, 1, WEFT_FLOAT32).status());
    WEFT_RETURN_IF_ERROR(context->SealUnit(unit));
    WEFT_RETURN_IF_ERROR(context->Finalize().status());
    WEFT_RETURN_IF_ERROR(context->StepBegin(WEFT_SHARD_TRAIN, 0));
    for (int m = 0; m < 2; ++m) {
      WEFT_RETURN_IF_ERROR(context->MicrobatchBegin(m, m == 1));
      WEFT_RETURN_IF_ERROR(Use(*context, unit));
      WEFT_RETURN_IF_ERROR(context->PreBackward(unit));
      const std::vector<float> ones(kCount, 1.0f);
      WEFT_RETURN_IF_ERROR(context->GradReady(0, ones.data()));
      WEFT_RETURN_IF_ERROR(context->PostBackward(unit));
      WEFT_RETURN_IF_ERROR(context->MicrobatchEnd());
      if (m == 0) {
        EXPECT_EQ(ResultOf(context->ReduceWait(unit)), WEFT_BAD_STATE);
      }
    }
    WEFT_RETURN_IF_ERROR(context->Finish().status());
    WEFT_ASSIGN_OR_RETURN(const auto part, context->OwnPart(0));
    const auto* const grad = static_cast<const float*>(part.first.grad);
    EXPECT_EQ(std::count(grad, grad + part.first.count, 8.0f),
              static_cast<std::ptrdiff_t>(part.first.count));
    return context->StepEnd();
  };
  ExpectAllOk(RunRanks(GroupKind::kLocal, 4, body));
}

TEST(Combinations, ReduceWaitWithoutOverlapIsRefused) {
  ExpectNothingToWaitFor(
      {.accumulation = WEFT_SHARD_REDUCE_EVERY, .overlap = false, .average = false},
      WEFT_SHARD_ZERO1);
}

TEST(Combinations, ReduceWaitWhereSumsOfReplicasAreKeptIsRefused) {
  ExpectNothingToWaitFor({.accumulation = WEFT_SHARD_INNER_EVERY_OUTER_LAST, .average = false},
                         WEFT_SHARD_HYBRID_SHARD);
}

// The second step replays what the first one did, in which unshard_wait needed a unit that no call names.
TEST(Combinations, UnshardOfAUnitWithATiedParamIsReplayed) {
  const auto body = [&](int, std::shared_ptr<ProcessGroup> group) -> absl::Status {
    WEFT_ASSIGN_OR_RETURN(auto context, MakeTied(group, {}, WEFT_SHARD_FULL_SHARD));
    for (int step = 0; step < 3; ++step) {
      WEFT_RETURN_IF_ERROR(context->StepBegin(WEFT_SHARD_EVAL, 0));
      WEFT_RETURN_IF_ERROR(context->MicrobatchBegin(0, true));
      WEFT_RETURN_IF_ERROR(Use(*context, kEmbed));
      WEFT_RETURN_IF_ERROR(Use(*context, kBody));
      WEFT_RETURN_IF_ERROR(context->UnshardStart(kHead));
      WEFT_RETURN_IF_ERROR(context->UnshardWait(kHead));
      WEFT_RETURN_IF_ERROR(context->Reshard(kHead));
      WEFT_RETURN_IF_ERROR(context->MicrobatchEnd());
      WEFT_RETURN_IF_ERROR(context->Finish().status());
      WEFT_RETURN_IF_ERROR(context->StepEnd());
    }
    return absl::OkStatus();
  };
  ExpectAllOk(RunRanks(GroupKind::kLocal, 2, body));
}

}  // namespace
}  // namespace weft::combinations_test
