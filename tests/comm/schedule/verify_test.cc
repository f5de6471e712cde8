// Every algorithm for every goal that it serves, 1 to 33 participants, counts that divide and that do not: proved, in place too.
#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "comm/schedule/algorithms.h"
#include "comm/schedule/exchange.h"
#include "comm/schedule/schedule_json.h"
#include "comm/schedule/table_schedule.h"
#include "comm/schedule/verify_schedule.h"

namespace weft::verify_test {
namespace {

constexpr int kMost = 33;

// How many of the counts and orders the algorithm has schedules for; all of these are proved.
int Prove(const ScheduleAlgorithm& algorithm, GoalKind kind, int n) {
  int proved = 0;
  for (const uint64_t count : {uint64_t{0}, uint64_t{1}, uint64_t{7}, uint64_t{1000}}) {
    for (const bool order_free : {false, true}) {
      ScheduleGoal goal = {.kind = kind,
                           .participants = n,
                           .count = kind == GoalKind::kBarrier ? 0 : count,
                           .order_free = order_free};
      if (goal.HasRoot()) goal.root = n * 2 / 3;
      const std::unique_ptr<CollectiveSchedule> schedule = algorithm.make(goal);
      if (schedule == nullptr) continue;
      const absl::Status status = VerifySchedule(*schedule).status();
      EXPECT_TRUE(status.ok()) << algorithm.name << " " << GoalName(kind) << " of " << n << ", "
                               << count << " units: " << status;
      ++proved;
    }
  }
  return proved;
}

TEST(VerifySchedule, ProvesEveryAlgorithmForEveryGoalItServes) {
  for (const ScheduleAlgorithm& algorithm : kScheduleAlgorithms) {
    int proved = 0;
    for (const GoalKind kind : kGoalKinds) {
      for (int n = 1; n <= kMost && !HasFailure(); ++n)
        proved += Prove(algorithm, kind, n);
    }
    EXPECT_GT(proved, 100) << algorithm.name;
  }
}

// Blocks that differ, some of them empty.
TEST(VerifySchedule, ProvesBlocksThatDiffer) {
  for (const GoalKind kind : {GoalKind::kReduceScatter, GoalKind::kAllGather}) {
    for (int n = 1; n <= kMost; ++n) {
      ScheduleGoal goal = {.kind = kind, .participants = n};
      for (int participant = 0; participant < n; ++participant)
        goal.blocks.push_back(static_cast<uint64_t>(participant * 7 % 5 * participant));
      const auto schedule = MakeSchedule("direct", goal);
      ASSERT_TRUE(schedule.ok()) << schedule.status();
      const absl::Status status = VerifySchedule(**schedule).status();
      EXPECT_TRUE(status.ok()) << GoalName(kind) << " of " << n << ": " << status;
      EXPECT_EQ(MakeSchedule("ring", goal).ok(), false);
      const auto halving = MakeSchedule("tree_halving", goal);
      ASSERT_EQ(halving.ok(), kind == GoalKind::kReduceScatter);
      if (halving.ok()) {
        const absl::Status proof = VerifySchedule(**halving).status();
        EXPECT_TRUE(proof.ok()) << "tree_halving of " << n << ": " << proof;
      }
      const auto again = ScheduleFromJson(ScheduleAsJson(**schedule));
      ASSERT_TRUE(again.ok()) << again.status();
      EXPECT_EQ((*again)->goal().blocks, goal.blocks);
    }
  }
}

// Each participant's part is made alone; together they are an all_to_all, which is proved.
TEST(VerifySchedule, ProvesExchangesOfEqualBlocks) {
  constexpr uint64_t kUnits = 3;
  for (int n = 1; n <= 9; ++n) {
    ScheduleTable table{.algorithm = "exchange",
                        .goal = {.kind = GoalKind::kAllToAll, .participants = n, .count = kUnits},
                        .window = 4};
    for (int self = 0; self < n; ++self) {
      ExchangedBlocks blocks;
      for (int peer = n - 1; peer >= 0; --peer) {
        const ExchangedBlock block{peer, kUnits * static_cast<uint64_t>(peer), kUnits};
        blocks.sends.push_back(block);
        blocks.receives.push_back(block);
      }
      const ExchangeSchedule part(n, self, blocks);
      table.participants.push_back({.ops = ListOps(part, self), .sent = part.SentBy(self)});
    }
    const absl::Status status = VerifySchedule(TableSchedule(std::move(table))).status();
    EXPECT_TRUE(status.ok()) << n << ": " << status;
  }
}

}  // namespace
}  // namespace weft::verify_test
