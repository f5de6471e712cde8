// What each algorithm sends and in how many levels, against formulas of the literature, for 1 to 33 participants.
#include <algorithm>
#include <bit>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "comm/schedule/algorithms.h"
#include "comm/schedule/verify_schedule.h"
#include "tests/comm/schedule/random_orders.h"

namespace weft::traffic_test {
namespace {

constexpr int kMost = 33;

uint64_t CeilLog2(int n) {
  return n <= 1 ? 0 : static_cast<uint64_t>(std::bit_width(static_cast<unsigned>(n - 1)));
}

ScheduleProof Prove(const ScheduleAlgorithm& algorithm, const ScheduleGoal& goal) {
  const std::unique_ptr<CollectiveSchedule> schedule = algorithm.make(goal);
  EXPECT_NE(nullptr, schedule);
  absl::StatusOr<ScheduleProof> proof = VerifySchedule(*schedule);
  EXPECT_TRUE(proof.ok()) << algorithm.name << " of " << goal.participants << ": "
                          << proof.status();
  return *std::move(proof);
}

const ScheduleAlgorithm& Named(std::string_view name) {
  return *std::find_if(std::begin(kScheduleAlgorithms), std::end(kScheduleAlgorithms),
                       [&](const ScheduleAlgorithm& one) { return one.name == name; });
}

uint64_t Sent(const ScheduleProof& proof, int participant) {
  const SentUnits& sent = proof.sent[static_cast<size_t>(participant)];
  return sent.elements + sent.accumulators;
}

uint64_t MostSent(const ScheduleProof& proof) {
  uint64_t most = 0;
  for (size_t p = 0; p < proof.sent.size(); ++p)
    most = std::max(most, Sent(proof, static_cast<int>(p)));
  return most;
}

// Units per participant of a vector, or a block, that `n` divides.
constexpr uint64_t kSlice = 24;

struct Law {
  std::string_view algorithm;
  GoalKind kind;
  // Of n participants, in slices of 1/n of a vector, or blocks: sent by whom sends most; by all; levels. 0 is "not said".
  std::function<uint64_t(uint64_t)> most;
  std::function<uint64_t(uint64_t)> all;
  std::function<uint64_t(int)> levels;
};

TEST(ScheduleTraffic, FollowsTheLaws) {
  const auto log2 = [](int n) {
    return CeilLog2(n);
  };
  // From root 0, a binomial tree's ways are as long as the ones in a participant's number.
  const auto ones = [](int n) {
    uint64_t most = 0;
    for (int p = 0; p < n; ++p)
      most = std::max(most, static_cast<uint64_t>(std::popcount(static_cast<unsigned>(p))));
    return most;
  };
  const auto one = [](int n) {
    return n > 1 ? 1 : 0;
  };
  const auto two = [](int n) {
    return n > 1 ? 2 : 0;
  };
  const auto steps = [](int n) {
    return static_cast<uint64_t>(n - 1);
  };
  const auto twice_steps = [](int n) {
    return 2 * static_cast<uint64_t>(n - 1);
  };
  const auto one_block_each = [](uint64_t n) {
    return n - 1;
  };
  const auto all_blocks = [](uint64_t n) {
    return n * (n - 1);
  };
  const auto two_slices_each = [](uint64_t n) {
    return 2 * (n - 1);
  };
  const auto two_slices_all = [](uint64_t n) {
    return 2 * n * (n - 1);
  };
  const auto whole_vectors = [](uint64_t n) {
    return n * (n - 1);
  };
  const auto twice_whole_vectors = [](uint64_t n) {
    return 2 * n * (n - 1);
  };
  const std::vector<Law> laws = {
      {"direct", GoalKind::kAllReduce, two_slices_each, two_slices_all, two},
      {"ring", GoalKind::kAllReduce, two_slices_each, two_slices_all, twice_steps},
      {"tree_halving", GoalKind::kAllReduce, nullptr, nullptr,
       [](int n) {
         return 2 * CeilLog2(n);
       }},
      {"recursive_doubling", GoalKind::kAllReduce, nullptr, nullptr, log2},
      // The server sends N - 1 vectors of N slices, the others one.
      {"parameter_server", GoalKind::kAllReduce, whole_vectors, twice_whole_vectors, two},
      {"double_tree", GoalKind::kAllReduce, nullptr, twice_whole_vectors, nullptr},
      {"direct", GoalKind::kReduceScatter, one_block_each, all_blocks, one},
      {"ring", GoalKind::kReduceScatter, one_block_each, all_blocks, steps},
      {"tree_halving", GoalKind::kReduceScatter, one_block_each, all_blocks, log2},
      {"direct", GoalKind::kAllGather, one_block_each, all_blocks, one},
      {"ring", GoalKind::kAllGather, one_block_each, all_blocks, steps},
      {"bruck", GoalKind::kAllGather, one_block_each, all_blocks, log2},
      {"direct", GoalKind::kAllToAll, one_block_each, all_blocks, one},
      {"direct", GoalKind::kReduce, [](uint64_t n) { return n > 1 ? n : 0; }, whole_vectors, one},
      {"binomial", GoalKind::kReduce, [](uint64_t n) { return n > 1 ? n : 0; }, whole_vectors,
       ones},
      {"direct", GoalKind::kBroadcast, whole_vectors, whole_vectors, one},
      {"binomial", GoalKind::kBroadcast,
       [](uint64_t n) { return n * CeilLog2(static_cast<int>(n)); }, whole_vectors, ones},
      {"direct", GoalKind::kGather, [](uint64_t n) { return n > 1 ? 1 : 0; }, one_block_each, one},
      {"binomial", GoalKind::kGather, nullptr, nullptr, ones},
      {"direct", GoalKind::kScatter, one_block_each, one_block_each, one},
      {"binomial", GoalKind::kScatter, one_block_each, nullptr, ones},
      {"direct", GoalKind::kBarrier, nullptr, nullptr, one},
      {"bruck", GoalKind::kBarrier, nullptr, nullptr, log2},
      {"prefix_doubling", GoalKind::kScan, nullptr, nullptr, log2},
      {"prefix_doubling", GoalKind::kExscan, nullptr, nullptr, log2},
  };
  for (const Law& law : laws) {
    for (int n = 1; n <= kMost; ++n) {
      const auto participants = static_cast<uint64_t>(n);
      ScheduleGoal goal = {.kind = law.kind, .participants = n, .count = kSlice};
      if (law.kind == GoalKind::kAllReduce || law.kind == GoalKind::kReduce ||
          law.kind == GoalKind::kBroadcast)
        goal.count *= participants;
      if (law.kind == GoalKind::kBarrier) goal.count = 0;
      goal.order_free = law.algorithm == "ring" || law.algorithm == "double_tree";
      const ScheduleProof proof = Prove(Named(law.algorithm), goal);
      uint64_t all = 0;
      for (int p = 0; p < n; ++p)
        all += Sent(proof, p);
      SCOPED_TRACE(testing::Message() << law.algorithm << " " << GoalName(law.kind) << " of " << n);
      if (law.most) {
        EXPECT_EQ(law.most(participants) * kSlice, MostSent(proof));
      }
      if (law.all) {
        EXPECT_EQ(law.all(participants) * kSlice, all);
      }
      if (law.levels) {
        EXPECT_EQ(law.levels(n), static_cast<uint64_t>(proof.levels));
      }
    }
  }
}

// A vector per level at most; and nothing that is not needed, where the first of two is done at once.
TEST(ScheduleTraffic, ScansSendAVectorPerLevelAtMost) {
  for (const GoalKind kind : {GoalKind::kScan, GoalKind::kExscan}) {
    for (int n = 1; n <= kMost; ++n) {
      const ScheduleProof proof =
          Prove(Named("prefix_doubling"), {.kind = kind, .participants = n, .count = 10});
      EXPECT_LE(MostSent(proof), 10 * CeilLog2(n)) << n;
      EXPECT_EQ(Sent(proof, n - 1), 0u) << n;
    }
  }
}

TEST(ScheduleTraffic, TwoTreesShareTheWork) {
  for (int n = 1; n <= kMost; ++n) {
    const ScheduleProof proof =
        Prove(Named("double_tree"),
              {.kind = GoalKind::kAllReduce, .participants = n, .count = 1000, .order_free = true});
    // Two vectors where a single tree's inner vertices send three.
    EXPECT_LE(MostSent(proof), 2000u) << n;
    EXPECT_LE(proof.levels, 2 * static_cast<int>(CeilLog2(n) + 1)) << n;
  }
}

TEST(ScheduleTraffic, ScatterAndGatherSendLessThanTwoVectors) {
  for (int n = 2; n <= kMost; ++n) {
    const uint64_t count = kSlice * static_cast<uint64_t>(n);
    for (const int root : {0, n / 2, n - 1}) {
      const ScheduleProof proof =
          Prove(Named("scatter_gather"),
                {.kind = GoalKind::kBroadcast, .participants = n, .count = count, .root = root});
      EXPECT_LT(MostSent(proof), 2 * count) << n;
      EXPECT_LE(proof.levels, static_cast<int>(CeilLog2(n)) + n - 1) << n;
    }
  }
}

TEST(ScheduleTraffic, PiecesCostAVectorEach) {
  std::mt19937_64 random(5);
  for (int n = 2; n <= 12; ++n) {
    const ReductionOrder order = test::RandomOrder(n, 3 * n, &random);
    const uint64_t count = kSlice * static_cast<uint64_t>(n);
    const ScheduleProof proof =
        Prove(Named("direct"),
              {.kind = GoalKind::kAllReduce, .participants = n, .count = count, .order = order});
    for (int p = 0; p < n; ++p) {
      SentUnits expected;
      const uint64_t part = count - kSlice;  // (N-1)/N
      for (int i = 0; i < order.PieceCountOf(p); ++i) {
        const bool element = order.FormOf(order.PieceOf(p, i)) == UnitForm::kElement;
        (element ? expected.elements : expected.accumulators) += part;
      }
      expected.elements += part;
      EXPECT_EQ(expected, proof.sent[static_cast<size_t>(p)]) << p << " of " << n;
    }
  }
}

TEST(ScheduleTraffic, RandomTreesAndMapsAreRight) {
  const uint64_t seed = std::random_device()();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::mt19937_64 random(seed);
  int proved = 0;
  for (int n = 1; n <= kMost; n += 1 + n / 8) {
    for (const ScheduleAlgorithm& algorithm : kScheduleAlgorithms) {
      for (const GoalKind kind :
           {GoalKind::kAllReduce, GoalKind::kReduceScatter, GoalKind::kReduce}) {
        for (const int pieces : {n, n + static_cast<int>(random() % 20)}) {
          ScheduleGoal goal = {.kind = kind,
                               .participants = n,
                               .count = random() % 400,
                               .order = test::RandomOrder(n, pieces, &random)};
          if (goal.HasRoot()) goal.root = static_cast<int>(random() % static_cast<uint64_t>(n));
          if (algorithm.make(goal) == nullptr) continue;
          Prove(algorithm, goal);
          ++proved;
        }
      }
    }
  }
  EXPECT_GT(proved, 100);
}

}  // namespace
}  // namespace weft::traffic_test
