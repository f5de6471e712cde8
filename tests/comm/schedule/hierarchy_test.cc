// Hierarchies of islands of all shapes, with all schedules across: proved, and carried out on numbers.
#include "comm/schedule/hierarchy.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "comm/schedule/algorithms.h"
#include "comm/schedule/verify_schedule.h"
#include "tests/comm/schedule/random_execution.h"

namespace weft::hierarchy_test {
namespace {

// In order, of equal size or not; by turns; by chance. Every island has a participant.
std::vector<int> IslandsOf(int participants, int islands, int shape, std::mt19937_64* random) {
  std::vector<int> island_of;
  for (int participant = 0; participant < participants; ++participant) {
    int island = participant * islands / participants;
    if (shape == 1) island = participant % islands;
    if (shape == 2 && participant >= islands)
      island = static_cast<int>((*random)() % static_cast<uint64_t>(islands));
    if (shape == 2 && participant < islands) island = participant;
    if (shape == 3) island = std::min(participant, islands - 1);
    island_of.push_back(island);
  }
  return island_of;
}

TEST(ScheduleHierarchy, IsRightForAllIslandsAndSchedulesAcross) {
  const uint64_t seed = std::random_device()();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::mt19937_64 random(seed);
  int proved[2] = {};
  for (int n = 2; n <= 17; ++n) {
    for (int islands = 2; islands <= n; ++islands) {
      for (const GoalKind kind : kGoalKinds) {
        const ScheduleAlgorithm& across =
            kScheduleAlgorithms[random() % std::size(kScheduleAlgorithms)];
        // Also fewer units than members: some slices have none.
        ScheduleGoal goal = {.kind = kind,
                             .participants = n,
                             .count = random() % 3 == 0 ? random() % 10 : random() % 500,
                             .order_free = random() % 2 == 0};
        if (goal.HasRoot()) goal.root = static_cast<int>(random() % static_cast<uint64_t>(n));
        if (random() % 4 == 0 &&
            (kind == GoalKind::kReduceScatter || kind == GoalKind::kAllGather)) {
          goal.count = 0;
          for (int i = 0; i < n; ++i)
            goal.blocks.push_back(random() % 7);
        }
        const auto make = random() % 2 == 0 ? MakeDirectSchedule : across.make;
        const std::vector<int> map = IslandsOf(n, islands, static_cast<int>(random() % 4), &random);
        const std::unique_ptr<CollectiveSchedule> schedule =
            MakeHierarchySchedule(goal, map, 1 + static_cast<int>(random() % 9), make);
        if (schedule == nullptr) continue;
        std::string told = std::string(schedule->algorithm()) + " " + std::string(GoalName(kind)) +
                           ", " + std::to_string(goal.count) + " units, on";
        for (const int island : map)
          told += " " + std::to_string(island);
        const absl::StatusOr<ScheduleProof> proof = VerifySchedule(*schedule);
        ASSERT_TRUE(proof.ok()) << told << ": " << proof.status();
        ++proved[goal.order_free ? 1 : 0];
        if (n > 8) continue;
        const test::ChanceOptions options = {.seed = random(),
                                             .in_place = random() % 2 == 0,
                                             .window_only = random() % 2 == 0,
                                             .rendezvous = random() % 2 == 0};
        ASSERT_EQ("", test::ExecuteByChance(*schedule, options)) << told;
      }
    }
  }
  EXPECT_GT(proved[0], 100);
  EXPECT_GT(proved[1], 100);
}

// Units that go from one island to others.
uint64_t Across(const CollectiveSchedule& schedule, const std::vector<int>& island_of, int island) {
  uint64_t across = 0;
  for (size_t p = 0; p < island_of.size(); ++p) {
    if (island_of[p] != island) continue;
    for (const ScheduleOp& op : ListOps(schedule, static_cast<int>(p))) {
      const bool leaves =
          op.action == OpAction::kSend && island_of[static_cast<size_t>(op.peer)] != island;
      if (leaves) across += op.units;
    }
  }
  return across;
}

TEST(ScheduleHierarchy, SendsAVectorPerIslandAcross) {
  constexpr uint64_t kCount = 1 << 12;
  std::vector<int> island_of;
  for (int p = 0; p < 16; ++p)
    island_of.push_back(p / 4);
  const ScheduleGoal goal = {.kind = GoalKind::kAllReduce, .participants = 16, .count = kCount};
  for (const auto across : {MakeTreeHalvingSchedule, MakeDirectSchedule}) {
    const auto schedule = MakeHierarchySchedule(goal, island_of, 1, across);
    for (int island = 0; island < 4; ++island)
      EXPECT_EQ(2 * kCount * 3 / 4, Across(*schedule, island_of, island));
  }
}

// Three and one: the three are two pieces.
TEST(ScheduleHierarchy, SendsEachPieceOfTheTree) {
  constexpr uint64_t kCount = 3000;
  const std::vector<int> island_of = {0, 0, 0, 1};
  const ScheduleGoal goal = {.kind = GoalKind::kAllReduce, .participants = 4, .count = kCount};
  const auto schedule = MakeHierarchySchedule(goal, island_of, 2, MakeDirectSchedule);
  EXPECT_EQ(2 * kCount / 2 + kCount / 2, Across(*schedule, island_of, 0));
  EXPECT_EQ(kCount, Across(*schedule, island_of, 1));
}

TEST(ScheduleHierarchy, BlocksGoToEachIslandOnce) {
  constexpr uint64_t kCount = 100;
  const std::vector<int> island_of = {0, 0, 1, 1, 1, 0};
  const ScheduleGoal goal = {.kind = GoalKind::kAllGather, .participants = 6, .count = kCount};
  const auto schedule = MakeHierarchySchedule(goal, island_of, 2, MakeDirectSchedule);
  EXPECT_EQ(3 * kCount, Across(*schedule, island_of, 0));
  EXPECT_EQ(3 * kCount, Across(*schedule, island_of, 1));
}

TEST(ScheduleHierarchy, IsNoneWhereThereAreNoLanes) {
  const ScheduleGoal goal = {.kind = GoalKind::kAllReduce, .participants = 4, .count = 100};
  EXPECT_EQ(nullptr, MakeHierarchySchedule(goal, {0, 0, 0, 0}, 1, MakeDirectSchedule));
  EXPECT_EQ(nullptr, MakeHierarchySchedule(goal, {0, 0, 1, 1}, 1, MakeRingSchedule));
  EXPECT_EQ(nullptr,
            MakeHierarchySchedule({.kind = GoalKind::kAllToAll, .participants = 4, .count = 1},
                                  {0, 0, 1, 1}, 1, MakeDirectSchedule));
  EXPECT_NE(nullptr, MakeHierarchySchedule(goal, {0, 0, 1, 1}, 1, MakeDirectSchedule));
}

}  // namespace
}  // namespace weft::hierarchy_test
