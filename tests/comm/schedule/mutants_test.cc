// 10,000 schedules with a mistake in them. What the verifier still proves is carried out on numbers, by an executor of its own, in orders
// drawn by chance: all of it must give what the goal says. So no mistake that shows in a result, or lets ops wait for ever, has passed.
#include <cstdio>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "comm/schedule/algorithms.h"
#include "comm/schedule/table_schedule.h"
#include "comm/schedule/verify_schedule.h"
#include "tests/comm/schedule/mutation.h"
#include "tests/comm/schedule/random_execution.h"
#include "tests/comm/schedule/random_orders.h"
#include "tests/support/case_sample.h"

namespace weft::mutants_test {
namespace {

constexpr int kMutants = 10000;
constexpr int kOrders = 4;  // of each mutant that is proved

std::unique_ptr<CollectiveSchedule> DrawSchedule(std::mt19937_64* random) {
  while (true) {
    const int n = 1 + static_cast<int>((*random)() % 7);
    const GoalKind kind = kGoalKinds[(*random)() % std::size(kGoalKinds)];
    ScheduleGoal goal = {.kind = kind,
                         .participants = n,
                         .count = kind == GoalKind::kBarrier ? 0 : (*random)() % 20,
                         .order_free = (*random)() % 2 == 0};
    if (goal.HasRoot()) goal.root = static_cast<int>((*random)() % static_cast<uint64_t>(n));
    if (goal.Reduces() && (*random)() % 4 == 0)
      goal.order = test::RandomOrder(n, n + static_cast<int>((*random)() % 4), random);
    std::unique_ptr<CollectiveSchedule> schedule =
        kScheduleAlgorithms[(*random)() % std::size(kScheduleAlgorithms)].make(goal);
    if (schedule != nullptr) return schedule;
  }
}

// The first thing that goes wrong in some orders; "" if nothing does.
std::string FirstProblem(const CollectiveSchedule& schedule, std::mt19937_64* random) {
  for (int i = 0; i < kOrders; ++i) {
    const test::ChanceOptions options = {.seed = (*random)(),
                                         .in_place = schedule.in_place() && i % 2 == 1,
                                         .window_only = (*random)() % 2 == 0,
                                         .rendezvous = (*random)() % 2 == 0};
    std::string problem = test::ExecuteByChance(schedule, options);
    if (!problem.empty()) return problem;
  }
  return "";
}

TEST(ScheduleMutants, AreRefusedOrDoTheSame) {
  const uint64_t seed = test::FirstSeedToTry(std::random_device()());
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::mt19937_64 random(seed);
  int proved = 0;
  int refused = 0;
  for (int i = 0; i < kMutants; ++i) {
    const std::unique_ptr<CollectiveSchedule> schedule = DrawSchedule(&random);
    std::string what;
    const TableSchedule mutant(test::Mutate(TableOf(*schedule), &random, &what));
    if (what.empty()) continue;
    if (!VerifySchedule(mutant).ok()) {
      ++refused;
      continue;
    }
    ++proved;
    ASSERT_EQ("", FirstProblem(mutant, &random))
        << schedule->algorithm() << " " << GoalName(schedule->goal().kind) << " of "
        << schedule->goal().participants << ", " << schedule->goal().count << " units; " << what;
  }
  std::printf("%d refused, %d proved and the same\n", refused, proved);
  EXPECT_GT(refused, kMutants / 2);
  EXPECT_GT(proved, kMutants / 50);
}

// Refusals that are no empty caution: most of these mutants do wrong in one of a few orders, if they can be carried out at all.
TEST(ScheduleMutants, ThatAreRefusedMostlyDoWrong) {
  const uint64_t seed = test::FirstSeedToTry(std::random_device()());
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::mt19937_64 random(seed);
  int carried_out = 0;
  int wrong = 0;
  for (int i = 0; i < kMutants / 5; ++i) {
    const std::unique_ptr<CollectiveSchedule> schedule = DrawSchedule(&random);
    std::string what;
    const TableSchedule mutant(test::Mutate(TableOf(*schedule), &random, &what));
    const absl::Status status = VerifySchedule(mutant).status();
    // Only what keeps within its buffers and has whole messages can be carried out: races, circles, wrong results.
    const std::string text(status.message());
    const bool can_run =
        text.find("in no order") != text.npos || text.find("wait for each other") != text.npos ||
        text.find("it should be") != text.npos || text.find("nobody has written") != text.npos ||
        text.find("different places") != text.npos;
    if (status.ok() || !can_run) continue;
    ++carried_out;
    wrong += FirstProblem(mutant, &random).empty() ? 0 : 1;
  }
  std::printf("%d of %d do wrong in %d orders\n", wrong, carried_out, kOrders);
  EXPECT_GT(carried_out, 100);
  EXPECT_GT(wrong, carried_out / 2);
}

}  // namespace
}  // namespace weft::mutants_test
