// Replicas, when a rank fails: its groups have only some of the ranks, but all are released, also while those that know
// keep everything and do nothing.
#include <barrier>
#include <string>
#include <thread>
#include <vector>

#include "base/status.h"
#include "base/wait.h"
#include "comm/node/heap.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/shard/exact_model.h"
#include "tests/shard/ranks.h"

namespace weft::replica_failure_test {
namespace {

using testing::HasSubstr;

constexpr int kRanks = 4;
constexpr int kAborter = 3;
constexpr int64_t kTimeoutNs = 10'000'000'000;
constexpr size_t kUnits = 4;

ContextOptions Options(int prefetch) {
  return {.limits = {.bucket_bytes = 1024, .first_bucket_bytes = 1024},
          .average = false,
          .timeout_ns = kTimeoutNs,
          .prefetch = prefetch};
}

// The statuses of all ranks; `fail` is called with this rank's model once a step has been made.
template <typename Fail>
std::vector<absl::Status> RunReplicas(weft_shard_preset_t preset, int prefetch, const Fail& fail) {
  std::barrier all_know(kRanks);
  return RunRanks(
      GroupKind::kLocal, kRanks,
      [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group, Options(prefetch), {2, 2}));
        ExactModel model(*context, ExactUnits(kUnits, preset), rank, kRanks);
        absl::Status status = model.Finalize().status();
        if (status.ok()) status = model.Train(ScriptOf({0, 1, 2, 3}, {3, 2, 1, 0})).status();
        if (status.ok()) status = fail(rank, *context, model);
        all_know.arrive_and_wait();
        return status;
      });
}

void ExpectAborted(const std::vector<absl::Status>& statuses) {
  for (const absl::Status& status : statuses) {
    EXPECT_EQ(ResultOf(status), WEFT_ABORTED) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("sample 9 is torn"));
  }
  EXPECT_EQ(ProcessHeap().live_bytes(), 0u);
}

TEST(AbortStep, ReleasesAllReplicas) {
  constexpr int kCalls = 20;  // about as many as a step has
  for (const weft_shard_preset_t preset : {WEFT_SHARD_HYBRID_SHARD, WEFT_SHARD_HPZ}) {
    for (int at = 1; at < kCalls; at += kSampled ? 6 : 2) {
      SCOPED_TRACE(std::string(PresetName(preset)) + " at call " + std::to_string(at));
      const int64_t begin_ns = MonotonicNs();
      ExpectAborted(RunReplicas(preset, at % 3, [&](int rank, Context& context, ExactModel& model) {
        int calls = 0;
        model.pause = [&] {
          if (rank == kAborter && ++calls == at) {
            EXPECT_TRUE(context.AbortStep("sample 9 is torn").ok());
          }
        };
        return model.Train(ScriptOf({0, 1, 2, 3}, {3, 2, 1, 0})).status();
      }));
      EXPECT_LT(MonotonicNs() - begin_ns, kTimeoutNs);
    }
  }
}

TEST(AbortStep, ReleasesRanksThatReadOrBroadcastAmongSome) {
  for (const bool reads : {true, false}) {
    SCOPED_TRACE(reads ? "read" : "broadcast");
    const std::vector<absl::Status> statuses = RunReplicas(
        WEFT_SHARD_HYBRID_SHARD, 1, [&](int rank, Context& context, ExactModel&) -> absl::Status {
          if (rank == kAborter) {
            EXPECT_TRUE(context.AbortStep("sample 9 is torn").ok());
            return context.Updated();
          }
          std::vector<float> values(200);
          absl::Status status = reads ? context.Read(0, values.data()) : context.Broadcast(0);
          // The other replica may have read, but no rank begins a step.
          if (status.ok()) status = context.StepBegin(WEFT_SHARD_TRAIN, 0);
          return status;
        });
    ExpectAborted({statuses[2], statuses[3]});
  }
}

}  // namespace
}  // namespace weft::replica_failure_test
