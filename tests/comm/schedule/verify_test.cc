// Every algorithm for every goal that it serves, 1 to 33 participants, counts that divide and that do not: proved, in place too.
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "comm/schedule/algorithms.h"
#include "comm/schedule/verify_schedule.h"

namespace weft {
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

}  // namespace
}  // namespace weft
