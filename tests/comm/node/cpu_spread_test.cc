#include "comm/node/cpu_spread.h"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "comm/node/segment.h"
#include "rank_threads.h"

namespace weft::cpu_spread_test {
namespace {

cpu_set_t Cpus(std::initializer_list<int> cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus)
    CPU_SET(static_cast<size_t>(cpu), &set);
  return set;
}

// One of the CPUs where the rank should rather run, the lowest one; -1: none.
int BetterCpu(const std::vector<uint32_t>& cpus, int rank, const cpu_set_t& allowed) {
  const cpu_set_t better = BetterCpus(cpus, rank, allowed);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(static_cast<size_t>(cpu), &better)) return cpu;
  return -1;
}

std::vector<int> BetterOfAll(const std::vector<uint32_t>& cpus, const cpu_set_t& allowed) {
  std::vector<int> better;
  for (int rank = 0; rank < static_cast<int>(cpus.size()); ++rank)
    better.push_back(BetterCpu(cpus, rank, allowed));
  return better;
}

TEST(CpuSpreadTest, TheLastRanksOfACrowdGoToTheEmptyCpu) {
  EXPECT_EQ(BetterOfAll({0, 0, 0, 0}, Cpus({0, 1})), (std::vector<int>{-1, -1, 1, 1}));
  EXPECT_EQ(BetterOfAll({0, 1, 0, 0, 0}, Cpus({0, 1})), (std::vector<int>{-1, -1, -1, -1, 1}));
}

TEST(CpuSpreadTest, AnyOfTheCpusWithTheFewestRanksWillDo) {
  const cpu_set_t better = BetterCpus(std::vector<uint32_t>{3, 3, 1}, 1, Cpus({0, 1, 2, 3}));
  const cpu_set_t expected = Cpus({0, 2});
  EXPECT_TRUE(CPU_EQUAL(&better, &expected));
}

TEST(CpuSpreadTest, NobodyGoesWhereOnlyOneRankLessIs) {
  EXPECT_EQ(BetterOfAll({0, 0, 1}, Cpus({0, 1})), (std::vector<int>{-1, -1, -1}));
  EXPECT_EQ(BetterOfAll({0, 0, 1, 1}, Cpus({0, 1})), (std::vector<int>{-1, -1, -1, -1}));
}

TEST(CpuSpreadTest, ACpuThatTheThreadMayNotUseIsNotTaken) {
  EXPECT_EQ(BetterOfAll({0, 0, 0, 0}, Cpus({0})), (std::vector<int>{-1, -1, -1, -1}));
  EXPECT_EQ(BetterCpu(std::vector<uint32_t>{0, 0, 0, 0}, 3, Cpus({0, 5})), 5);
  EXPECT_EQ(BetterCpu(std::vector<uint32_t>{0, 0, 0, 0}, 3, Cpus({})), -1);
}

TEST(CpuSpreadTest, RanksThatAreNowhereKnownDoNotCount) {
  EXPECT_EQ(BetterOfAll({0, kUnknownCpu, kUnknownCpu, 0}, Cpus({0, 1})),
            (std::vector<int>{-1, -1, -1, 1}));
}

// Ranks that look one after the other, in any order, each knowing where all are now.
TEST(CpuSpreadTest, RanksThatDoAsTheyAreToldEndSpreadEvenly) {
  constexpr uint32_t kSeed = 20261122;
  SCOPED_TRACE(kSeed);
  std::mt19937 random(kSeed);
  for (int trial = 0; trial < 200; ++trial) {
    const uint32_t cpu_count = 1 + random() % 8;
    cpu_set_t allowed = Cpus({});
    for (uint32_t cpu = 0; cpu < cpu_count; ++cpu)
      CPU_SET(cpu, &allowed);
    std::vector<uint32_t> cpus(1 + random() % 24);
    for (uint32_t& cpu : cpus)
      cpu = random() % cpu_count;
    for (size_t look = 0; look < 50 * cpus.size(); ++look) {
      const auto rank = static_cast<int>(random() % cpus.size());
      const int better = BetterCpu(cpus, rank, allowed);
      if (better >= 0) cpus[static_cast<size_t>(rank)] = static_cast<uint32_t>(better);
    }
    std::vector<int> ranks_on(cpu_count);
    for (const uint32_t cpu : cpus)
      ++ranks_on[cpu];
    const auto [least, most] = std::minmax_element(ranks_on.begin(), ranks_on.end());
    EXPECT_LE(*most - *least, 1) << "trial " << trial;
  }
}

TEST(CpuSpreadTest, MovingLeavesTheAffinityAsItWas) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  int moves = 0;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(static_cast<size_t>(cpu), &before)) continue;
    EXPECT_TRUE(MoveToOneOf(Cpus({cpu}), before));
    ++moves;
    cpu_set_t after;
    ASSERT_EQ(sched_getaffinity(0, sizeof(after), &after), 0);
    EXPECT_TRUE(CPU_EQUAL(&before, &after));
  }
  EXPECT_GT(moves, 0);
}

TEST(CpuSpreadTest, ACpuThatIsNotThereLeavesTheAffinityAsItWas) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  EXPECT_FALSE(MoveToOneOf(Cpus({CPU_SETSIZE - 1}), before));
  cpu_set_t after;
  ASSERT_EQ(sched_getaffinity(0, sizeof(after), &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
}

// All begin on one CPU, which is what is to be mended, and may use all.
TEST(CpuSpreadTest, RanksThatWaitForEachOtherKeepTheirAffinity) {
  cpu_set_t all;
  ASSERT_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
  for (const int ranks : {2, 4}) {
    const std::string problem =
        test::RunThreadRanks(ranks, {.name = "spread"}, [&](ProcessGroup& group) -> std::string {
          int first = 0;
          while (!CPU_ISSET(static_cast<size_t>(first), &all))
            ++first;
          if (!MoveToOneOf(Cpus({first}), all)) return "the thread could not be moved";
          for (int call = 0; call < 2000; ++call) {
            const absl::Status met = group.Run({.kind = OpKind::kBarrier});
            if (!met.ok()) return std::string(met.message());
            cpu_set_t now;
            if (sched_getaffinity(0, sizeof(now), &now) != 0) return "no affinity";
            if (!CPU_EQUAL(&now, &all)) return "the affinity has changed";
          }
          return "";
        });
    EXPECT_EQ(problem, "");
  }
}

}  // namespace
}  // namespace weft::cpu_spread_test
