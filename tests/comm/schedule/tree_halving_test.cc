// Tree halving: traffic and levels for every number of participants, and random trees and maps.
#include <bit>
#include <cstdio>
#include <memory>
#include <numeric>
#include <random>
#include <utility>

#include <gtest/gtest.h>

#include "comm/schedule/algorithms.h"
#include "comm/schedule/verify_schedule.h"
#include "tests/comm/schedule/random_orders.h"

namespace weft::tree_halving_test {
namespace {

constexpr int kMost = 33;

// Units that every cut of a canonical tree of up to 33 leaves divides: (A, B) is cut |A| : |B| at every vertex.
uint64_t DivisibleUnits(int n) {
  uint64_t units = 1;
  const ReductionOrder order(n);
  for (OrderVertex at = order.Root(); at.count > 1; at = order.Right(at)) {
    units *= static_cast<uint64_t>(at.count);
    if (order.IsPerfect(at)) break;
  }
  // The perfect subtrees to the left.
  return units << CanonicalLeft(std::max(n, 2)) / 2;
}

TEST(TreeHalving, SendsNMinusOneNthsAndTakesLog2Levels) {
  for (int n = 1; n <= kMost; ++n) {
    uint64_t units = DivisibleUnits(n);
    units = units / n * n;
    const std::unique_ptr<CollectiveSchedule> schedule =
        MakeTreeHalvingSchedule({.kind = GoalKind::kAllReduce, .participants = n, .count = units});
    const absl::StatusOr<ScheduleProof> proof = VerifySchedule(*schedule);
    ASSERT_TRUE(proof.ok()) << n << ": " << proof.status();
    const int log2 = n == 1 ? 0 : std::bit_width(static_cast<unsigned>(n - 1));
    EXPECT_EQ(2 * log2, proof->levels) << n;
    uint64_t total = 0;
    for (int p = 0; p < n; ++p) {
      uint64_t before_final = 0;
      for (const ScheduleOp& op : ListOps(*schedule, p)) {
        if (op.action == OpAction::kSend && op.from[0].place.buffer != kOutputBuffer)
          before_final += op.units;
      }
      EXPECT_EQ(units / n * (n - 1), before_final) << p << " of " << n;
      const SentUnits& sent = proof->sent[static_cast<size_t>(p)];
      total += sent.elements + sent.accumulators;
      EXPECT_LE(sent.elements + sent.accumulators, units / n * (n - 1) * 9 / 4) << p << " of " << n;
    }
    EXPECT_EQ(2 * (units - units / n) * n, total) << n;
  }
}

TEST(TreeHalving, IsRightForRandomTreesAndMaps) {
  const uint64_t seed = std::random_device()();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::mt19937_64 random(seed);
  for (int n = 1; n <= kMost; ++n) {
    for (int i = 0; i < 6; ++i) {
      const ScheduleGoal goal = {.kind = GoalKind::kAllReduce,
                                 .participants = n,
                                 .count = random() % 5000,
                                 .order = test::RandomOrder(n, n, &random)};
      const absl::StatusOr<ScheduleProof> proof = VerifySchedule(*MakeTreeHalvingSchedule(goal));
      ASSERT_TRUE(proof.ok()) << n << " participants, " << goal.count
                              << " units: " << proof.status();
      EXPECT_LE(proof->levels, 2 * goal.order.Levels());
    }
  }
}

TEST(TreeHalving, OpsOfOneOfManyParticipantsComeWithoutTheOthers) {
  for (const int n : {4096, 65536, 65537, 50000}) {
    const std::unique_ptr<CollectiveSchedule> schedule = MakeTreeHalvingSchedule(
        {.kind = GoalKind::kAllReduce, .participants = n, .count = uint64_t{1} << 30});
    for (const int p : {0, n / 3, n - 2}) {
      uint64_t sent = 0;
      uint64_t ops = 0;
      const std::unique_ptr<OpStream> stream = schedule->OpsOf(p);
      for (ScheduleOp op; stream->Next(&op); ++ops) {
        if (op.action == OpAction::kSend && op.from[0].place.buffer != kOutputBuffer)
          sent += op.units;
      }
      const double share = static_cast<double>(sent) / static_cast<double>(uint64_t{1} << 30);
      EXPECT_NEAR(1.0, share, 0.001) << p << " of " << n;
      std::printf("%d of %d: %llu ops\n", p, n, static_cast<unsigned long long>(ops));
    }
  }
}

uint64_t Sent(const ScheduleProof& proof, int participant) {
  const SentUnits& sent = proof.sent[static_cast<size_t>(participant)];
  return sent.elements + sent.accumulators;
}

// Messages of one participant: sent, received.
std::pair<int, int> MessagesOf(const CollectiveSchedule& schedule, int participant) {
  std::pair<int, int> messages;
  for (const ScheduleOp& op : ListOps(schedule, participant)) {
    messages.first += op.action == OpAction::kSend ? 1 : 0;
    messages.second += op.action == OpAction::kRecv ? 1 : 0;
  }
  return messages;
}

TEST(TreeHalvingScatter, SendsAllButTheOwnBlockAndTakesLog2Levels) {
  for (int n = 1; n <= kMost; ++n) {
    const std::unique_ptr<CollectiveSchedule> schedule =
        MakeTreeHalvingSchedule({.kind = GoalKind::kReduceScatter, .participants = n, .count = 7});
    ASSERT_NE(schedule, nullptr);
    const absl::StatusOr<ScheduleProof> proof = VerifySchedule(*schedule);
    ASSERT_TRUE(proof.ok()) << n << ": " << proof.status();
    const int log2 = n == 1 ? 0 : std::bit_width(static_cast<unsigned>(n - 1));
    EXPECT_EQ(log2, proof->levels) << n;
    EXPECT_TRUE(proof->in_place);
    const int left = n == 1 ? 1 : CanonicalLeft(n);
    for (int p = 0; p < n; ++p) {
      EXPECT_EQ(Sent(*proof, p), static_cast<uint64_t>(n - 1) * 7) << p << " of " << n;
      const auto [sends, receives] = MessagesOf(*schedule, p);
      EXPECT_LE(receives, log2) << p << " of " << n;
      if (p < left || std::has_single_bit(static_cast<unsigned>(n))) {
        EXPECT_LE(sends, log2) << p << " of " << n;
      }
    }
  }
}

TEST(TreeHalvingScatter, IsRightForRandomTreesMapsAndBlocks) {
  const uint64_t seed = std::random_device()();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::mt19937_64 random(seed);
  for (int n = 1; n <= kMost; ++n) {
    for (int i = 0; i < 8; ++i) {
      ScheduleGoal goal = {.kind = GoalKind::kReduceScatter, .participants = n};
      if (i % 2 == 0) goal.order = test::RandomOrder(n, n, &random);
      if (i % 4 < 2) goal.count = random() % 50;
      for (int p = 0; p < n && i % 4 >= 2; ++p)
        goal.blocks.push_back(random() % 3 == 0 ? 0 : random() % 50);
      const std::unique_ptr<CollectiveSchedule> schedule = MakeTreeHalvingSchedule(goal);
      ASSERT_NE(schedule, nullptr);
      const absl::StatusOr<ScheduleProof> proof = VerifySchedule(*schedule);
      ASSERT_TRUE(proof.ok()) << n << " participants, try " << i << ": " << proof.status();
      EXPECT_LE(proof->levels, goal.EffectiveOrder().Levels());
      for (int p = 0; p < n; ++p)
        EXPECT_EQ(Sent(*proof, p), goal.BlocksUnits() - goal.BlockUnits(p)) << p << " of " << n;
    }
  }
}

// Partial sums of elements that are narrower than accumulators go in levels behind the first one.
TEST(TreeHalvingScatter, AccumulatorsAreAtMostHalfOfWhatIsSent) {
  for (const int n : {4, 8, 16, 32}) {
    const std::unique_ptr<CollectiveSchedule> schedule =
        MakeTreeHalvingSchedule({.kind = GoalKind::kReduceScatter, .participants = n, .count = 5});
    for (int p = 0; p < n; ++p) {
      const auto half = static_cast<uint64_t>(n) * 5 / 2;
      EXPECT_EQ(schedule->SentBy(p), (SentUnits{half, half - 5})) << p << " of " << n;
    }
  }
}

}  // namespace
}  // namespace weft::tree_halving_test
