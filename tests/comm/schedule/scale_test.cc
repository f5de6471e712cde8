// More participants than the other tests have: proofs of a few hundred, and of tens of thousands the ops of some, whose messages must have
// their other halves at the peers.
#include <cstdio>
#include <memory>
#include <random>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "comm/schedule/algorithms.h"
#include "comm/schedule/verify_schedule.h"

namespace weft::scale_test {
namespace {

// Whose participants have few ops, so that a peer's can all be looked at.
constexpr std::string_view kOfFewOps[] = {"tree_halving", "recursive_doubling", "binomial",
                                          "bruck",        "double_tree",        "prefix_doubling"};

template <typename F>
void ForEachOfFewOps(int n, F&& use) {
  for (const std::string_view name : kOfFewOps) {
    for (const ScheduleAlgorithm& algorithm : kScheduleAlgorithms) {
      if (algorithm.name != name) continue;
      for (const GoalKind kind : kGoalKinds) {
        ScheduleGoal goal = {
            .kind = kind, .participants = n, .count = kind == GoalKind::kBarrier ? 0 : 1u << 20};
        if (goal.HasRoot()) goal.root = n / 3;
        std::unique_ptr<CollectiveSchedule> schedule = algorithm.make(goal);
        goal.order_free = true;
        if (schedule == nullptr) schedule = algorithm.make(goal);
        if (schedule != nullptr) use(*schedule);
      }
    }
  }
}

TEST(ScheduleScale, HundredsOfParticipantsAreProved) {
  for (const int n : {64, 100, 127, 129}) {
    ForEachOfFewOps(n, [&](const CollectiveSchedule& schedule) {
      const absl::StatusOr<ScheduleProof> proof = VerifySchedule(schedule);
      EXPECT_TRUE(proof.ok()) << schedule.algorithm() << " " << GoalName(schedule.goal().kind)
                              << " of " << n << ": " << proof.status();
    });
  }
}

// The other half of a message, among all ops of the peer; how many there are.
int OtherHalves(const CollectiveSchedule& schedule, int participant, const ScheduleOp& op) {
  int found = 0;
  for (const ScheduleOp& other : ListOps(schedule, op.peer)) {
    const bool halves = (op.action == OpAction::kSend && other.action == OpAction::kRecv) ||
                        (op.action == OpAction::kRecv && other.action == OpAction::kSend);
    if (halves && other.peer == participant && other.tag == op.tag && other.units == op.units)
      ++found;
  }
  return found;
}

TEST(ScheduleScale, MessagesOfTensOfThousandsHaveBothHalves) {
  const uint64_t seed = std::random_device()();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::mt19937_64 random(seed);
  for (const int n : {4096, 50000, 65536}) {
    ForEachOfFewOps(n, [&](const CollectiveSchedule& schedule) {
      for (int i = 0; i < 4; ++i) {
        const int participant =
            i == 0 ? n - 1 : static_cast<int>(random() % static_cast<uint64_t>(n));
        for (const ScheduleOp& op : ListOps(schedule, participant)) {
          if (op.action != OpAction::kSend && op.action != OpAction::kRecv) continue;
          ASSERT_EQ(1, OtherHalves(schedule, participant, op))
              << schedule.algorithm() << " " << GoalName(schedule.goal().kind) << " of " << n
              << ": participant " << participant << " with " << op.peer;
        }
      }
    });
  }
}

}  // namespace
}  // namespace weft::scale_test
