// Processes as ranks: the same bits as threads as ranks, and what a step says when a rank is killed or destroys its context.
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"
#include "comm/node/make_group.h"
#include "tests/comm/node/directory_store.h"
#include "tests/comm/node/left_behind.h"
#include "tests/shard/gradient_step.h"
#include "tests/shard/ranks.h"
#include "tests/shard/small_model.h"
#include "tests/support/forked_ranks.h"
#include "tests/support/leak_check.h"

namespace weft::process_test {
namespace {

using test::DirectoryStore;
using test::Holdings;
using test::RankEnd;
using test::RunForkedRanks;
using test::TemporaryDirectory;

constexpr int kProcessCounts[] = {1, 2, 4};
constexpr int64_t kTimeoutNs = 60'000'000'000;

std::string Text(const absl::Status& status) {
  return StrCat(ResultOf(status), ": ", FromAbsl(status.message()));
}

// Runs `body` on `size` forked ranks that have made a group, and expects all but `killed` to end
// well and to leave nothing behind.
void OnProcesses(int size, const std::function<absl::Status(std::shared_ptr<ProcessGroup>)>& body,
                 int killed = -1) {
  const TemporaryDirectory directory;
  const std::vector<RankEnd> ends = RunForkedRanks(size, 120, [&](int rank) -> std::string {
    const Holdings before = Holdings::Now();
    {
      DirectoryStore store(directory.path());
      auto group = MakeNodeGroup(&store, rank, size, {.name = "p", .timeout_ns = kTimeoutNs});
      if (!group.ok()) return Text(group.status());
      const absl::Status status = body(*group);
      (*group)->Close();
      if (!status.ok()) return Text(status);
    }
    return test::LeftBehind(before);
  });
  for (int rank = 0; rank < size; ++rank) {
    const RankEnd& end = ends[static_cast<size_t>(rank)];
    if (rank == killed) {
      EXPECT_TRUE(WIFSIGNALED(end.wait_status)) << end.Problem();
    } else {
      EXPECT_EQ(end.Problem(), "") << "rank " << rank << " of " << size;
    }
  }
}

// --- A training whose gradients depend on the parameters ----------------------------------------

const ContextOptions kSmallBuckets = {.limits = {.bucket_bytes = 4096, .first_bucket_bytes = 256}};
constexpr int kUnits = 5;
constexpr int64_t kCounts[kUnits] = {3, 1021, 2, 70001, 64};
constexpr int kSteps = 6;

// What rank 0 starts from and what each rank's samples add: functions of the numbers, in [-1, 1).
float MadeUp(uint64_t a, uint64_t b, uint64_t c) {
  return static_cast<float>(static_cast<int64_t>(Mix(Mix(Mix(a) + b) + c))) * 0x1p-63f;
}

absl::StatusOr<std::unique_ptr<Context>> MakeTraining(std::shared_ptr<ProcessGroup> group,
                                                      bool overlap) {
  const uint64_t rank = static_cast<uint64_t>(group->rank());
  ContextOptions options = kSmallBuckets;
  options.overlap = overlap;
  WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(std::move(group), options));
  for (int unit = 0; unit < kUnits; ++unit) {
    WEFT_RETURN_IF_ERROR(AddUnitWithParam(*context, StrCat("u", unit), {kCounts[unit]}).status());
  }
  WEFT_RETURN_IF_ERROR(context->Finalize().status());
  for (int unit = 0; unit < kUnits; ++unit) {
    WEFT_ASSIGN_OR_RETURN(const ParamView view, context->View(unit));
    for (size_t i = 0; i < view.count; ++i)
      static_cast<float*>(view.data)[i] = MadeUp(rank, static_cast<uint64_t>(unit), i);
  }
  WEFT_RETURN_IF_ERROR(context->Broadcast(0));
  return context;
}

// One step of gradient descent; calls `before(unit)` before the gradient of a unit is handed over.
absl::Status TrainStep(Context& context, int rank, int step,
                       const std::function<void(int unit)>& before) {
  WEFT_RETURN_IF_ERROR(context.StepBegin(WEFT_SHARD_TRAIN, 0));
  WEFT_RETURN_IF_ERROR(context.MicrobatchBegin(0, true));
  for (int unit = 0; unit < kUnits; ++unit) {
    WEFT_RETURN_IF_ERROR(context.PreForward(unit));
    WEFT_RETURN_IF_ERROR(context.PostForward(unit));
  }
  for (int unit = kUnits - 1; unit >= 0; --unit) {
    WEFT_RETURN_IF_ERROR(context.PreBackward(unit));
    WEFT_ASSIGN_OR_RETURN(const ParamView view, context.View(unit));
    const uint64_t sample = static_cast<uint64_t>(step) * 64 + static_cast<uint64_t>(rank) + 1;
    for (size_t i = 0; i < view.count; ++i) {
      static_cast<float*>(view.grad)[i] = 0.1f * static_cast<const float*>(view.data)[i] +
                                          MadeUp(sample, static_cast<uint64_t>(unit), i);
    }
    before(unit);
    WEFT_RETURN_IF_ERROR(context.GradReady(unit, nullptr));
    WEFT_RETURN_IF_ERROR(context.PostBackward(unit));
  }
  WEFT_RETURN_IF_ERROR(context.MicrobatchEnd());
  WEFT_RETURN_IF_ERROR(context.Finish().status());
  for (int unit = 0; unit < kUnits; ++unit) {
    WEFT_ASSIGN_OR_RETURN(const ParamView view, context.View(unit));
    for (size_t i = 0; i < view.count; ++i)
      static_cast<float*>(view.data)[i] -= 0.05f * static_cast<const float*>(view.grad)[i];
  }
  return context.StepEnd();
}

// Trains and writes the parameters of this rank to `file`.
absl::Status Train(std::shared_ptr<ProcessGroup> group, bool overlap,
                   const std::filesystem::path& file) {
  const int rank = group->rank();
  WEFT_ASSIGN_OR_RETURN(auto context, MakeTraining(std::move(group), overlap));
  for (int step = 0; step < kSteps; ++step)
    WEFT_RETURN_IF_ERROR(TrainStep(*context, rank, step, [](int) {}));
  WEFT_RETURN_IF_ERROR(context->Verify());
  std::ofstream out(file, std::ios::binary);
  for (int unit = 0; unit < kUnits; ++unit) {
    WEFT_ASSIGN_OR_RETURN(const ParamView view, context->View(unit));
    out.write(static_cast<const char*>(view.data),
              static_cast<std::streamsize>(view.count * sizeof(float)));
  }
  return absl::OkStatus();
}

std::string ReadFile(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class ShardProcesses : public ::testing::TestWithParam<int> {};

TEST_P(ShardProcesses, TrainToTheSameBitsAsThreads) {
  const int size = GetParam();
  for (const bool overlap : {false, true}) {
    const TemporaryDirectory directory;
    const auto file = [&](const char* kind, int rank) {
      return directory.path() / StrCat(kind, rank);
    };
    OnProcesses(size, [&](std::shared_ptr<ProcessGroup> group) {
      const int rank = group->rank();
      return Train(std::move(group), overlap, file("process", rank));
    });
    // In a process of its own, so that this one stays without threads and can fork again.
    const std::vector<RankEnd> ends = RunForkedRanks(1, 120, [&](int) -> std::string {
      const auto body = [&](int rank, std::shared_ptr<ProcessGroup> group) {
        return Train(std::move(group), overlap, file("thread", rank));
      };
      for (const absl::Status& status : RunRanks(GroupKind::kLocal, size, body)) {
        if (!status.ok()) return Text(status);
      }
      return "";
    });
    EXPECT_EQ(ends[0].Problem(), "");
    size_t bytes = 0;
    for (const int64_t count : kCounts)
      bytes += static_cast<size_t>(count) * sizeof(float);
    const std::string expected = ReadFile(file("thread", 0));
    ASSERT_EQ(expected.size(), bytes);
    for (int rank = 0; rank < size; ++rank)
      EXPECT_TRUE(ReadFile(file("process", rank)) == expected) << "rank " << rank;
  }
}

TEST_P(ShardProcesses, ReduceEveryKindOfParamAsTheReference) {
  const int size = GetParam();
  const std::vector<ModelParam> model = SmallModel();
  for (const auto accumulation : {WEFT_SHARD_LOCAL_THEN_REDUCE, WEFT_SHARD_REDUCE_EVERY}) {
    const Scenario scenario{.seed = 11,
                            .ranks = size,
                            .steps = 2,
                            .microbatches = 3,
                            .missing_percent = 20,
                            .accumulation = accumulation,
                            .shuffle = true};
    OnProcesses(size, [&](const std::shared_ptr<ProcessGroup>& group) -> absl::Status {
      const int rank = group->rank();
      WEFT_ASSIGN_OR_RETURN(
          auto context,
          MakeContext(group, {.limits = {.bucket_bytes = 512, .first_bucket_bytes = 64},
                              .accumulation = accumulation}));
      WEFT_RETURN_IF_ERROR(Declare(*context, model));
      WEFT_RETURN_IF_ERROR(context->Finalize().status());
      for (int step = 0; step < scenario.steps; ++step) {
        WEFT_RETURN_IF_ERROR(RunStep(*context, model, scenario, rank, step).status());
        WEFT_ASSIGN_OR_RETURN(const auto gradients, ReadGradients(*context, model));
        if (gradients != ExpectedGradients(model, scenario, step)) {
          return absl::InternalError(StrCat("wrong gradients in step ", step));
        }
        WEFT_RETURN_IF_ERROR(context->StepEnd());
      }
      return absl::OkStatus();
    });
  }
}

// Rank 0 is told in step 1, the last rank in step 3.
TEST_P(ShardProcesses, HearWhatAnyOfThemRequests) {
  OnProcesses(GetParam(), [](const std::shared_ptr<ProcessGroup>& group) -> absl::Status {
    const int rank = group->rank();
    WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group));
    WEFT_RETURN_IF_ERROR(context->SetOptimizer({}));
    WEFT_RETURN_IF_ERROR(Declare(*context, {{"u", "u.weight", {700}, WEFT_FLOAT32}}));
    WEFT_RETURN_IF_ERROR(context->Finalize().status());
    const std::vector<ModelParam> model = {{"u", "u.weight", {700}, WEFT_FLOAT32}};
    const std::vector<float> gradient(700, 0.5F);
    for (int step = 0; step < 5; ++step) {
      WEFT_RETURN_IF_ERROR(RunGradientStep(
          *context, model, [&](int) { return context->GradReady(0, gradient.data()); }));
      weft_shard_update_t update = UpdateWith(0.01);
      if (rank == 0 && step == 1) update.requests = 1;
      if (rank == group->size() - 1 && step == 3) update.requests = uint64_t{1} << 63;
      WEFT_ASSIGN_OR_RETURN(const auto result, context->OptimizerStep(update));
      const uint64_t expected = step == 1 ? 1 : (step == 3 ? uint64_t{1} << 63 : 0);
      if (result.requests != expected) {
        return absl::InternalError(StrCat("step ", step, ": requests ", result.requests));
      }
      WEFT_RETURN_IF_ERROR(context->StepEnd());
    }
    return absl::OkStatus();
  });
}

INSTANTIATE_TEST_SUITE_P(RankSet, ShardProcesses, ::testing::ValuesIn(kProcessCounts));

// --- A rank that dies in the middle of a step ---------------------------------------------------

// Ok if the step failed as it has to: PEER_LOST, by SIGKILL, of the victim, long before the
// operation's deadline, and again at the next call.
absl::Status JudgeFailure(Context& context, const absl::Status& status, int victim,
                          int64_t took_ns) {
  const ErrorFields fields = FieldsOf(status);
  if (ResultOf(status) != WEFT_PEER_LOST) return Annotate(status, "expected PEER_LOST, got: ");
  if (fields.rank != victim) return Annotate(status, StrCat("blames rank ", fields.rank, ": "));
  if (fields.signal != SIGKILL) return Annotate(status, "does not know the signal: ");
  if (took_ns > kTimeoutNs / 6) return absl::InternalError(StrCat("took ", took_ns, " ns"));
  const absl::Status again = context.StepBegin(WEFT_SHARD_TRAIN, 0);
  if (ResultOf(again) != WEFT_PEER_LOST) return Annotate(again, "the next step says: ");
  return absl::OkStatus();
}

void KillInTheMiddleOfAStep(int size, bool overlap) {
  const int victim = size - 1;
  OnProcesses(
      size,
      [&](const std::shared_ptr<ProcessGroup>& group) -> absl::Status {
        const int rank = group->rank();
        WEFT_ASSIGN_OR_RETURN(auto context, MakeTraining(group, overlap));
        absl::Status status;
        int64_t start_ns = 0;
        for (int step = 0; status.ok() && step < kSteps; ++step) {
          start_ns = MonotonicNs();
          status = TrainStep(*context, rank, step, [&](int unit) {
            // Some of its buckets are reduced or under way, others never will be.
            if (rank == victim && step == 3 && unit == 2) raise(SIGKILL);
          });
        }
        return JudgeFailure(*context, status, victim, MonotonicNs() - start_ns);
      },
      victim);
}

// --- A rank that destroys its context in the middle of a step ------------------------------------

absl::Status EvaluationStep(Context& context) {
  WEFT_RETURN_IF_ERROR(context.StepBegin(WEFT_SHARD_EVAL, 0));
  for (int microbatch = 0; microbatch < 2; ++microbatch) {
    WEFT_RETURN_IF_ERROR(context.MicrobatchBegin(microbatch, microbatch == 1));
    for (int unit = 0; unit < kUnits; ++unit) {
      WEFT_RETURN_IF_ERROR(context.PreForward(unit));
      WEFT_RETURN_IF_ERROR(context.PostForward(unit));
    }
    WEFT_RETURN_IF_ERROR(context.MicrobatchEnd());
  }
  return context.StepEnd();
}

TEST(DestroyedShardContext, IsNamedByTheOtherProcesses) {
  for (const int size : {2, 3}) {
    const int leaver = size - 1;
    OnProcesses(size, [&](const std::shared_ptr<ProcessGroup>& group) -> absl::Status {
      const int rank = group->rank();
      WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group));
      for (int unit = 0; unit < kUnits; ++unit) {
        WEFT_RETURN_IF_ERROR(AddUnitWithParam(*context, StrCat("u", unit), {kCounts[unit]},
                                              WEFT_FLOAT32, /*frozen=*/false,
                                              PlacementOf(WEFT_SHARD_FULL_SHARD))
                                 .status());
      }
      WEFT_RETURN_IF_ERROR(context->Finalize().status());
      WEFT_RETURN_IF_ERROR(EvaluationStep(*context));
      if (rank == leaver) {
        WEFT_RETURN_IF_ERROR(context->StepBegin(WEFT_SHARD_EVAL, 0));
        WEFT_RETURN_IF_ERROR(context->MicrobatchBegin(0, false));
        return context->PreForward(0);
      }
      const absl::Status status = EvaluationStep(*context);
      if (ResultOf(status) != WEFT_ABORTED) return Annotate(status, "expected ABORTED, got: ");
      if (FieldsOf(status).rank != leaver) return Annotate(status, "blames another rank: ");
      return absl::OkStatus();
    });
  }
}

TEST(KilledShardRank, IsNamedByTheOthersWhenReductionsOverlap) {
  for (const int size : {2, 4})
    KillInTheMiddleOfAStep(size, /*overlap=*/true);
}

TEST(KilledShardRank, IsNamedByTheOthersWhenFinishReduces) {
  for (const int size : {2, 4})
    KillInTheMiddleOfAStep(size, /*overlap=*/false);
}

}  // namespace
}  // namespace weft::process_test
