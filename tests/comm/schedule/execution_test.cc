// Every algorithm carried out on numbers by an executor that knows nothing of proofs, in orders drawn by chance.
#include <cstdio>
#include <memory>
#include <random>

#include <gtest/gtest.h>

#include "comm/schedule/algorithms.h"
#include "tests/comm/schedule/random_execution.h"
#include "tests/comm/schedule/random_orders.h"

namespace weft::execution_test {
namespace {

// For the `number`-th try: with one vector each in either order, or pieces.
ScheduleGoal DrawGoal(GoalKind kind, int n, int number, std::mt19937_64* random) {
  ScheduleGoal goal = {
      .kind = kind, .participants = n, .count = (*random)() % 40, .order_free = number % 2 == 1};
  if (kind == GoalKind::kBarrier) goal.count = 0;
  if (goal.HasRoot()) goal.root = static_cast<int>((*random)() % static_cast<uint64_t>(n));
  if (goal.Reduces() && number == 2)
    goal.order = test::RandomOrder(n, n + static_cast<int>((*random)() % 2) * 5, random);
  return goal;
}

void ExpectRight(const CollectiveSchedule& schedule, std::mt19937_64* random) {
  for (const bool rendezvous : {false, true}) {
    const test::ChanceOptions options = {.seed = (*random)(),
                                         .in_place = schedule.in_place() && (*random)() % 2 == 0,
                                         .window_only = (*random)() % 2 == 0,
                                         .rendezvous = rendezvous};
    ASSERT_EQ("", test::ExecuteByChance(schedule, options))
        << schedule.algorithm() << " " << GoalName(schedule.goal().kind) << " of "
        << schedule.goal().participants << ", " << schedule.goal().count << " units"
        << (options.in_place ? " in place" : "");
  }
}

TEST(ScheduleExecution, GivesWhatTheGoalSaysInAnyOrder) {
  const uint64_t seed = std::random_device()();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::mt19937_64 random(seed);
  for (const ScheduleAlgorithm& algorithm : kScheduleAlgorithms) {
    for (const GoalKind kind : kGoalKinds) {
      for (const int n : {1, 2, 3, 4, 5, 7, 8, 11}) {
        for (int number = 0; number < 4; ++number) {
          const std::unique_ptr<CollectiveSchedule> schedule =
              algorithm.make(DrawGoal(kind, n, number, &random));
          if (schedule == nullptr) continue;
          ASSERT_NO_FATAL_FAILURE(ExpectRight(*schedule, &random));
        }
      }
    }
  }
}

}  // namespace
}  // namespace weft::execution_test
