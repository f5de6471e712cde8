// Hierarchies of every group size and schedule across: proved, and carried out on numbers.
#include "comm/schedule/hierarchy.h"

#include <cstdio>
#include <memory>
#include <random>

#include <gtest/gtest.h>

#include "comm/schedule/algorithms.h"
#include "comm/schedule/verify_schedule.h"
#include "tests/comm/schedule/random_execution.h"

namespace weft {
namespace {

TEST(ScheduleHierarchy, IsRightForAllGroupsAndSchedulesAcross) {
  const uint64_t seed = std::random_device()();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::mt19937_64 random(seed);
  int in_order = 0;
  int in_no_order = 0;
  for (int n = 2; n <= 33; ++n) {
    for (int group = 2; group <= n; ++group) {
      for (const ScheduleAlgorithm& across : kScheduleAlgorithms) {
        // Also fewer units than members: some slices have none.
        const uint64_t count = random() % 3 == 0 ? random() % 10 : random() % 500;
        const ScheduleGoal goal = {.kind = GoalKind::kAllReduce,
                                   .participants = n,
                                   .count = count,
                                   .order_free = random() % 2 == 0};
        const std::unique_ptr<CollectiveSchedule> schedule =
            MakeHierarchySchedule(goal, group, across.make);
        if (schedule == nullptr) continue;
        const absl::StatusOr<ScheduleProof> proof = VerifySchedule(*schedule);
        ASSERT_TRUE(proof.ok()) << schedule->algorithm() << " of " << n << ", " << goal.count
                                << " units: " << proof.status();
        (goal.order_free ? in_no_order : in_order) += 1;
        if (n > 8) continue;
        const test::ChanceOptions options = {.seed = random(),
                                             .in_place = random() % 2 == 0,
                                             .window_only = random() % 2 == 0,
                                             .rendezvous = random() % 2 == 0};
        ASSERT_EQ("", test::ExecuteByChance(*schedule, options))
            << schedule->algorithm() << " of " << n;
      }
    }
  }
  EXPECT_GT(in_order, 50);
  EXPECT_GT(in_no_order, 100);
}

TEST(ScheduleHierarchy, SendsAVectorPerGroupAcross) {
  constexpr int kGroup = 4;
  constexpr uint64_t kCount = 1 << 12;
  const ScheduleGoal goal = {.kind = GoalKind::kAllReduce, .participants = 16, .count = kCount};
  const std::unique_ptr<CollectiveSchedule> schedule =
      MakeHierarchySchedule(goal, kGroup, MakeTreeHalvingSchedule);
  for (int group = 0; group < 4; ++group) {
    uint64_t across = 0;
    for (int p = group * kGroup; p < (group + 1) * kGroup; ++p) {
      for (const ScheduleOp& op : ListOps(*schedule, p)) {
        if (op.action == OpAction::kSend && op.peer / kGroup != group) across += op.units;
      }
    }
    EXPECT_EQ(2 * kCount * 3 / 4, across);
  }
}

TEST(ScheduleHierarchy, IsNoneWhereGroupsAreNoSubtrees) {
  const ScheduleGoal goal = {.kind = GoalKind::kAllReduce, .participants = 12, .count = 100};
  EXPECT_EQ(nullptr, MakeHierarchySchedule(goal, 3, MakeDirectSchedule));
  EXPECT_EQ(nullptr, MakeHierarchySchedule(goal, 5, MakeDirectSchedule));
  EXPECT_EQ(nullptr, MakeHierarchySchedule(goal, 4, MakeRingSchedule));
  EXPECT_EQ(nullptr,
            MakeHierarchySchedule({.kind = GoalKind::kAllGather, .participants = 4, .count = 1}, 2,
                                  MakeDirectSchedule));
  EXPECT_NE(nullptr, MakeHierarchySchedule(goal, 4, MakeDirectSchedule));
  EXPECT_NE(nullptr, MakeHierarchySchedule(goal, 12, MakeDirectSchedule));
}

}  // namespace
}  // namespace weft
