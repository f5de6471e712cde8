// Which way a reduce_scatter takes: as a simulation of both has it.
#include "comm/hierarchy/scatter_choice.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "comm/engine/simulate_schedule.h"
#include "comm/hierarchy/span_schedule.h"
#include "comm/schedule/algorithms.h"

namespace weft::test::scatter_choice_test {
namespace {

Islands Map(int ranks, int (*node_of)(int rank)) {
  Membership membership;
  for (int rank = 0; rank < ranks; ++rank)
    membership.members.push_back({.rank = rank, .fake_node = node_of(rank)});
  return IslandsOf(membership);
}

constexpr int (*kNodeOf[])(int rank) = {[](int rank) { return rank; },
                                        [](int rank) { return rank / 4; },
                                        [](int rank) { return rank % 2; },
                                        [](int rank) {
                                          return rank < 3 ? 0 : 1 + rank / 8;
                                        }};

Collective CallOf(weft_dtype_t dtype, uint64_t block_bytes) {
  return {.kind = OpKind::kReduceScatter,
          .dtype = dtype,
          .op = WEFT_SUM,
          .count = block_bytes / std::max<size_t>(1, DtypeSize(dtype))};
}

int64_t SimulatedNs(std::string_view algorithm, const Collective& call, const Islands& islands) {
  const auto ranks = static_cast<int>(islands.island_of.size());
  const auto schedule = MakeSchedule(
      algorithm, {.kind = GoalKind::kReduceScatter, .participants = ranks, .count = call.count});
  const auto cost =
      SimulateSchedule(**schedule, UnitArithmetic::Of(Isa::kScalar, call.dtype, call.op, ranks),
                       islands.island_of, LinkModel::Default());
  EXPECT_TRUE(cost.ok()) << cost.status();
  return cost.ok() ? cost->end_ns : 0;
}

// The choice is by a formula, so it may be wrong where both take about as long.
TEST(ScatterChoice, TakesWhatTheSimulationSaysIsFaster) {
  int halved = 0;
  int direct = 0;
  for (const auto node_of : kNodeOf) {
    for (const int ranks : {4, 6, 8, 16, 17, 33, 64}) {
      const Islands islands = Map(ranks, node_of);
      if (islands.count() < 2) continue;
      for (const weft_dtype_t dtype : {WEFT_FLOAT32, WEFT_BFLOAT16}) {
        for (const uint64_t block_bytes : {8, 512, 4096}) {
          const Collective call = CallOf(dtype, block_bytes);
          const bool halves = IsScatteredByHalving(call, block_bytes * static_cast<uint64_t>(ranks),
                                                   islands, LinkModel::Default());
          ++(halves ? halved : direct);
          const int64_t chosen_ns = SimulatedNs(halves ? "tree_halving" : "direct", call, islands);
          const int64_t other_ns = SimulatedNs(halves ? "direct" : "tree_halving", call, islands);
          EXPECT_LE(chosen_ns, other_ns * 3 / 2)
              << ranks << " ranks on " << islands.count() << " nodes, blocks of " << block_bytes
              << " bytes, " << DtypeName(dtype) << ": " << (halves ? "halving" : "direct");
        }
      }
    }
  }
  EXPECT_GT(halved, 30);
  EXPECT_GT(direct, 10);
}

TEST(ScatterChoice, IsWhatSchedulesAreMadeBy) {
  const auto algorithm = [](int ranks, int (*node_of)(int rank), uint64_t block_bytes) {
    const Islands islands = Map(ranks, node_of);
    const LinkModel links = LinkModel::Default();
    SpanChoices choices(islands, links);
    const auto schedule = ScheduleOf(CallOf(WEFT_FLOAT32, block_bytes), 0, islands, choices);
    return schedule.ok() ? (*schedule)->algorithm() : "none";
  };
  EXPECT_EQ(algorithm(2, kNodeOf[0], 8), "direct");
  EXPECT_EQ(algorithm(4, kNodeOf[0], 8), "direct");
  EXPECT_EQ(algorithm(32, kNodeOf[0], 8), "tree_halving");
  EXPECT_EQ(algorithm(16, kNodeOf[1], 8), "tree_halving");
  // Direct adds at most 64 at once.
  EXPECT_EQ(algorithm(70, kNodeOf[0], 8), "tree_halving");
  EXPECT_EQ(algorithm(70, kNodeOf[2], 8), "tree_halving");
}

}  // namespace
}  // namespace weft::test::scatter_choice_test
