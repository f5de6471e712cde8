// A gather that a completing thread cannot start, because the group has just ended: the call that waits for the unit fails,
// and does not take its place in memory, which has something else, for the unit.
#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"
#include "comm/group/forwarding_group.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/shard/exact_model.h"
#include "tests/shard/ranks.h"
#include "tests/shard/small_model.h"
#include "tests/support/leak_check.h"

namespace weft::refused_gather_test {
namespace {

// What its ranks, which are threads, tell each other.
struct Stage {
  std::atomic<bool> refuses = false;  // rank 0's next gather
  std::atomic<bool> refused = false;
  EventCount waiters;
};

// A group that ends with the gather that it refuses.
class RefusingGroup : public ForwardingGroup {
 public:
  RefusingGroup(std::shared_ptr<ProcessGroup> group, Stage& stage)
      : ForwardingGroup(std::move(group)), stage_(stage) {}

  absl::StatusOr<WorkRef> Start(const Collective& call) override {
    const Purpose purpose = UnpackPurpose(call.purpose.record);
    const bool gather = purpose.kind == Purpose::Kind::kGather && rank() == 0;
    if (gather && stage_.refuses.exchange(false)) {
      stage_.refused = true;
      group().Abort("a test ends it");
      return MakeError(WEFT_ABORTED, "the group has ended");
    }
    return group().Start(call);
  }

  absl::StatusOr<std::shared_ptr<ProcessGroup>> Split(int color, int key,
                                                      const GroupOptions& options) override {
    WEFT_ASSIGN_OR_RETURN(std::shared_ptr<ProcessGroup> part, group().Split(color, key, options));
    if (part == nullptr) return part;
    return std::make_shared<RefusingGroup>(std::move(part), stage_);
  }

 private:
  Stage& stage_;
};

// Of ExactModel's pauses in a step of six units: microbatch_begin has one, each unit three in forward, and three in backward
// of which the second comes before its gradient.
constexpr int kFirstGradient = 1 + 3 * 6 + 2;
constexpr int kSecondUnit = 1 + 3 * 6 + 3 + 1;

// Rank 1 withholds its gradients of backward's first unit until rank 0 is where it waits for the next units' places.
TEST(RefusedGather, IsNotTakenForAGatheredUnit) {
  // Which thread starts the gather differs from run to run.
  for (int round = 0; round < 60; ++round) {
    const int prefetch = round % 3;
    SCOPED_TRACE(StrCat(prefetch, " ahead"));
    Stage stage;
    const std::vector<absl::Status> statuses =
        RunRanks(GroupKind::kLocal, 2, [&](int rank, std::shared_ptr<ProcessGroup> group) {
          const auto refusing = std::make_shared<RefusingGroup>(std::move(group), stage);
          return [&]() -> absl::Status {
            WEFT_ASSIGN_OR_RETURN(
                auto context,
                MakeContext(refusing, {.limits = {.bucket_bytes = 1024, .first_bucket_bytes = 1024},
                                       .average = false,
                                       .prefetch = prefetch}));
            ExactModel model(*context, ExactUnits(6, WEFT_SHARD_FULL_SHARD), rank, 2);
            WEFT_RETURN_IF_ERROR(model.Finalize().status());
            const Script script = ScriptOf({0, 1, 2, 3, 4, 5}, {5, 4, 3, 2, 1, 0});
            WEFT_RETURN_IF_ERROR(model.Train(script).status());
            int pauses = 0;
            model.pause = [&, rank] {
              ++pauses;
              if (rank == 0 && pauses == kSecondUnit) {
                stage.refuses = true;
                NotifyAll(stage.waiters);
              }
              if (rank == 1 && pauses == kFirstGradient) {
                Deadline deadline{20'000'000'000};
                (void)WaitUntil(
                    stage.waiters, {}, deadline, [&] { return stage.refuses || stage.refused; },
                    [] { return false; });
              }
            };
            return model.Train(script).status();
          }();
        });
    EXPECT_TRUE(stage.refused);
    for (const absl::Status& status : statuses)
      EXPECT_EQ(ResultOf(status), WEFT_ABORTED) << status;
  }
}

}  // namespace
}  // namespace weft::refused_gather_test
