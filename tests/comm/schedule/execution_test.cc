// Every algorithm carried out on numbers by an executor that knows nothing of proofs, in orders drawn by chance.
#include <cstdio>
#include <memory>
#include <random>

#include <gtest/gtest.h>

#include "comm/schedule/algorithms.h"
#include "tests/comm/schedule/random_execution.h"
#include "tests/comm/schedule/random_orders.h"

namespace weft {
namespace {

TEST(ScheduleExecution, GivesWhatTheGoalSaysInAnyOrder) {
  const uint64_t seed = std::random_device()();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::mt19937_64 random(seed);
  for (const ScheduleAlgorithm& algorithm : kScheduleAlgorithms) {
    for (const GoalKind kind : kGoalKinds) {
      for (const int n : {1, 2, 3, 4, 5, 7, 8, 11}) {
        for (int i = 0; i < 4; ++i) {
          ScheduleGoal goal = {.kind = kind,
                               .participants = n,
                               .count = kind == GoalKind::kBarrier ? 0 : random() % 40,
                               .order_free = i % 2 == 1};
          if (goal.HasRoot()) goal.root = static_cast<int>(random() % static_cast<uint64_t>(n));
          if (goal.Reduces() && i == 2)
            goal.order = test::RandomOrder(n, n + static_cast<int>(random() % 2) * 5, &random);
          const std::unique_ptr<Schedule> schedule = algorithm.make(goal);
          if (schedule == nullptr) continue;
          for (const bool rendezvous : {false, true}) {
            const test::ChanceOptions options = {
                .seed = random(),
                .in_place = schedule->in_place() && random() % 2 == 0,
                .window_only = random() % 2 == 0,
                .rendezvous = rendezvous};
            ASSERT_EQ("", test::ExecuteByChance(*schedule, options))
                << algorithm.name << " " << GoalName(kind) << " of " << n << ", " << goal.count
                << " units" << (options.in_place ? " in place" : "");
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace weft
