// Simulated times, against those computed by hand: L + 2 o + k G for each message that waits for another one, k G for each that waits for a
// port.
#include "comm/engine/simulate_schedule.h"

#include <memory>
#include <numeric>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "comm/schedule/algorithms.h"
#include "comm/schedule/hierarchy.h"

namespace weft::simulate_schedule_test {
namespace {

constexpr int64_t kL = 1000;
constexpr int64_t kO = 10;

LinkModel PlainLinks() {
  return {.near = {.latency_ns = 40, .overhead_ns = 2, .ns_per_byte = 0.5},
          .far = {.latency_ns = kL, .overhead_ns = kO, .ns_per_byte = 1},
          .ahead_bytes = 8192};
}

std::vector<int> EachAlone(int size) {
  std::vector<int> islands(static_cast<size_t>(size));
  std::iota(islands.begin(), islands.end(), 0);
  return islands;
}

SimulatedCost CostOf(const CollectiveSchedule& schedule, const std::vector<int>& island_of) {
  const auto cost = SimulateSchedule(schedule, UnitArithmetic(1), island_of, PlainLinks());
  EXPECT_TRUE(cost.ok()) << cost.status();
  return cost.value_or(SimulatedCost{});
}

SimulatedCost CostOf(std::string_view algorithm, const ScheduleGoal& goal) {
  const auto schedule = MakeSchedule(algorithm, goal);
  EXPECT_TRUE(schedule.ok()) << schedule.status();
  return CostOf(**schedule, EachAlone(goal.participants));
}

TEST(SimulateSchedule, OneMessageTakesLatencyOverheadsAndBytes) {
  const ScheduleGoal goal{.kind = GoalKind::kBroadcast, .participants = 2, .count = 100};
  const SimulatedCost cost = CostOf("direct", goal);
  EXPECT_EQ(cost.end_ns, 2 * kO + kL + 100);
  EXPECT_EQ(cost.end_ns, PlainLinks().far.MessageNs(100));
  EXPECT_EQ(cost.far_bytes, (std::vector<uint64_t>{100, 0}));
}

// Both ends have posted it at 0, and the sender learns of that a latency later.
TEST(SimulateSchedule, ALargeMessageWaitsForItsReceive) {
  const ScheduleGoal goal{.kind = GoalKind::kBroadcast, .participants = 2, .count = 10'000};
  EXPECT_EQ(CostOf("direct", goal).end_ns, kL + 2 * kO + kL + 10'000);
}

// Three messages leave through one port, and as many arrive, staggered.
TEST(SimulateSchedule, DirectGatherFillsThePorts) {
  const ScheduleGoal goal{.kind = GoalKind::kAllGather, .participants = 4, .count = 100};
  EXPECT_EQ(CostOf("direct", goal).end_ns, 2 * kO + kL + 3 * 100);
}

TEST(SimulateSchedule, ARingGoesRoundByRound) {
  const ScheduleGoal goal{.kind = GoalKind::kAllGather, .participants = 5, .count = 100};
  EXPECT_EQ(CostOf("ring", goal).end_ns, 4 * (2 * kO + kL + 100));
  const ScheduleGoal sum{
      .kind = GoalKind::kAllReduce, .participants = 5, .count = 500, .order_free = true};
  EXPECT_EQ(CostOf("ring", sum).end_ns, 8 * (2 * kO + kL + 100));
}

TEST(SimulateSchedule, RecursiveDoublingSendsTheWholeAtEachLevel) {
  const ScheduleGoal goal{.kind = GoalKind::kAllReduce, .participants = 8, .count = 64};
  EXPECT_EQ(CostOf("recursive_doubling", goal).end_ns, 3 * (2 * kO + kL + 64));
}

// The law of its volume: (N-1) vectors enter one port, and leave it again.
TEST(SimulateSchedule, AParameterServerIsAsSlowAsItsPort) {
  const ScheduleGoal goal{
      .kind = GoalKind::kAllReduce, .participants = 5, .count = 1000, .order_free = true};
  const SimulatedCost cost = CostOf("parameter_server", goal);
  EXPECT_EQ(cost.far_bytes, (std::vector<uint64_t>{4000, 1000, 1000, 1000, 1000}));
  EXPECT_GE(cost.end_ns, 2 * (2 * kO + kL) + 8 * 1000);
  EXPECT_LE(cost.end_ns, 2 * (2 * kO + kL) + 8 * 1000 + 8 * kO);
}

// Four ranks on two islands: directly each island sends the vector twice, in lanes once.
TEST(SimulateSchedule, LanesSparePortsThatRanksShare) {
  constexpr uint64_t kCount = 1 << 20;
  const ScheduleGoal goal{.kind = GoalKind::kAllReduce, .participants = 4, .count = kCount};
  const std::vector<int> islands = {0, 0, 1, 1};
  const auto lanes = MakeHierarchySchedule(goal, islands, 1, MakeDirectSchedule);
  ASSERT_NE(lanes, nullptr);
  const SimulatedCost in_lanes = CostOf(*lanes, islands);
  const SimulatedCost direct = CostOf(*MakeDirectSchedule(goal), islands);
  // What travels between islands: of each lane half a slice there and the sum of the other half back; all elements but for the one-byte
  // accumulators of this arithmetic.
  EXPECT_EQ(in_lanes.far_bytes, (std::vector<uint64_t>{kCount, kCount}));
  EXPECT_EQ(direct.far_bytes, (std::vector<uint64_t>{2 * kCount, 2 * kCount}));
  EXPECT_GE(in_lanes.end_ns, static_cast<int64_t>(kCount));
  EXPECT_GE(direct.end_ns, static_cast<int64_t>(2 * kCount));
  EXPECT_LT(in_lanes.end_ns, direct.end_ns);
}

// Messages of a size that no memory has.
TEST(SimulateSchedule, SizesHaveNoMemory) {
  constexpr uint64_t kCount = uint64_t{1} << 42;
  const ScheduleGoal goal{.kind = GoalKind::kAllReduce, .participants = 33, .count = kCount};
  const SimulatedCost cost = CostOf("tree_halving", goal);
  EXPECT_GE(cost.end_ns, static_cast<int64_t>(2 * (kCount / 33) * 32));
}

// Every algorithm and goal ends, and sends what its theory says.
TEST(SimulateSchedule, SendsWhatTheSchedulesTheorySays) {
  int simulated = 0;
  for (const ScheduleAlgorithm& algorithm : kScheduleAlgorithms) {
    for (const GoalKind kind : kGoalKinds) {
      for (const int size : {1, 2, 5, 16, 64}) {
        const ScheduleGoal goal{.kind = kind,
                                .participants = size,
                                .count = kind == GoalKind::kBarrier ? uint64_t{0} : uint64_t{777}};
        const auto schedule = MakeSchedule(algorithm.name, goal);
        if (!schedule.ok()) continue;
        const SimulatedCost cost = CostOf(**schedule, EachAlone(size));
        for (int rank = 0; rank < size; ++rank) {
          const SentUnits sent = (*schedule)->SentBy(rank);
          ASSERT_EQ(cost.far_bytes[static_cast<size_t>(rank)], sent.elements + sent.accumulators)
              << algorithm.name << " " << GoalName(kind) << " of " << size << ", rank " << rank;
        }
        ++simulated;
      }
    }
  }
  EXPECT_GE(simulated, 100);
}

}  // namespace
}  // namespace weft::simulate_schedule_test
