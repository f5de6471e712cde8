// Which CPUs ranks get, on machines from files.
#include "topology/binding.h"

#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/status.h"
#include "tests/support/leak_check.h"
#include "tests/topology/machines.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> Lists(const absl::StatusOr<std::vector<CpuSet>>& shares) {
  EXPECT_TRUE(shares.ok()) << shares.status();
  std::vector<std::string> lists;
  if (!shares.ok()) return lists;
  for (const CpuSet& share : *shares)
    lists.push_back(share.ToList());
  return lists;
}

std::vector<std::string> Shares(const std::string& machine, ObjectKind kind, int ranks) {
  const Topology topology = Machine(machine);
  return Lists(PlanBinding(topology, kind, ranks, topology.cpus));
}

std::string Refusal(const std::string& machine, ObjectKind kind, int ranks,
                    const std::string& allowed) {
  const absl::Status status = PlanBinding(Machine(machine), kind, ranks, Cpus(allowed)).status();
  EXPECT_EQ(ResultOf(status), WEFT_INVALID_ARGUMENT);
  return std::string(status.message());
}

TEST(Binding, EachRankHasItsObject) {
  EXPECT_THAT(Shares("xeon_snc2", ObjectKind::kPackage, 2),
              ElementsAre("0-23,48-71", "24-47,72-95"));
  EXPECT_THAT(Shares("xeon_snc2", ObjectKind::kNumaNode, 4),
              ElementsAre("0-11,48-59", "12-23,60-71", "24-35,72-83", "36-47,84-95"));
  EXPECT_THAT(Shares("two_cpus", ObjectKind::kCore, 2), ElementsAre("0", "1"));
  EXPECT_THAT(Shares("two_cpus", ObjectKind::kPackage, 1), ElementsAre("0-1"));
}

TEST(Binding, FewerRanksAreSpreadOverTheMachine) {
  EXPECT_THAT(Shares("epyc_nps4", ObjectKind::kL3, 4),
              ElementsAre("0-7,128-135", "32-39,160-167", "64-71,192-199", "96-103,224-231"));
  EXPECT_THAT(Shares("xeon_snc2", ObjectKind::kCore, 2), ElementsAre("0,48", "24,72"));
  EXPECT_THAT(Shares("xeon_snc2", ObjectKind::kNumaNode, 3),
              ElementsAre("0-11,48-59", "12-23,60-71", "24-35,72-83"));
}

// Of a machine that numbers CPUs in turns, neighbouring ranks are in one package all the same.
TEST(Binding, OrderIsThatOfTheMachineNotOfNumbers) {
  EXPECT_THAT(Shares("cpus_in_turns", ObjectKind::kCore, 4), ElementsAre("0", "8", "1", "9"));
  EXPECT_THAT(Shares("cpus_in_turns", ObjectKind::kPackage, 4),
              ElementsAre("0,2,4,6", "8,10,12,14", "1,3,5,7", "9,11,13,15"));
}

TEST(Binding, SharesAreOfWholeCores) {
  EXPECT_THAT(
      Shares("xeon_snc2", ObjectKind::kNumaNode, 20),
      testing::IsSupersetOf({"0-1,48-49", "2-3,50-51", "4-6,52-54", "7-8,55-56", "9-11,57-59"}));
  // As many ranks as threads: two share a core.
  const std::vector<std::string> threads = Shares("xeon_snc2", ObjectKind::kCore, 96);
  EXPECT_THAT(std::vector<std::string>(threads.begin(), threads.begin() + 4),
              ElementsAre("0", "48", "1", "49"));
}

TEST(Binding, RanksThatOutnumberCpusShareThemEvenly) {
  EXPECT_THAT(Shares("two_cpus", ObjectKind::kCore, 6), ElementsAre("0", "0", "0", "1", "1", "1"));
  EXPECT_THAT(Shares("two_cpus", ObjectKind::kPackage, 4), ElementsAre("0", "0", "1", "1"));
  EXPECT_THAT(Refusal("two_cpus", ObjectKind::kPackage, 3, "0-1"),
              HasSubstr("3 ranks cannot share CPUs 0-1 evenly"));
}

TEST(Binding, UnevenSharesAreRefused) {
  EXPECT_THAT(Refusal("two_cpus", ObjectKind::kCore, 3, "0-1"),
              HasSubstr("binding ranks to core: 3 ranks and 2 cores in CPUs 0-1: they cannot be "
                        "shared evenly"));
  EXPECT_THAT(Refusal("xeon_snc2", ObjectKind::kPackage, 5, "0-95"),
              HasSubstr("5 ranks and 2 packages"));
}

TEST(Binding, StaysWithinWhatIsAllowed) {
  const Topology xeon = Machine("xeon_snc2");
  EXPECT_THAT(Lists(PlanBinding(xeon, ObjectKind::kPackage, 1, Cpus("3,51,90"))),
              ElementsAre("3,51"));
  EXPECT_THAT(Lists(PlanBinding(xeon, ObjectKind::kPackage, 2, Cpus("3,51,90"))),
              ElementsAre("3,51", "90"));
  // Of core 42 one thread is allowed.
  EXPECT_THAT(Lists(PlanBinding(xeon, ObjectKind::kCore, 2, Cpus("3,51,90"))),
              ElementsAre("3,51", "90"));
}

TEST(Binding, NothingToBindToIsRefused) {
  EXPECT_THAT(Refusal("two_cpus", ObjectKind::kPackage, 1, "5-6"),
              HasSubstr("no package has a CPU that this process may use, which are 5-6"));
  EXPECT_THAT(Refusal("two_cpus", ObjectKind::kPackage, 1, ""), HasSubstr("which are none"));
  Topology bare;
  bare.cpus = Cpus("0-1");
  const absl::Status status = PlanBinding(bare, ObjectKind::kL3, 1, bare.cpus).status();
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("binding ranks to l3: the topology has no L3 cache"));
}

TEST(Binding, NamesAreThoseOfTheCommandLine) {
  for (const ObjectKind kind : kObjectKinds)
    EXPECT_EQ(*ReadBindingName(BindingName(kind)), kind);
  EXPECT_THAT(std::string(ReadBindingName("socket").status().message()),
              HasSubstr("cannot be bound to \"socket\", but to core, l3, numa or package"));
}

// Whatever is allowed: no share is empty or leaves it, shares are equal or apart, and ranks outnumber each other nowhere.
TEST(Binding, PromisesHoldForAnyMask) {
  const unsigned long long seed = test::TestSeed(20261125);
  SCOPED_TRACE(testing::Message() << "WEFT_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  int planned = 0;
  for (int round = 0; round < 600; ++round) {
    const Topology topology = Machine(kMachineNames[random() % 4]);
    const ObjectKind kind = kObjectKinds[random() % 4];
    const int ranks = 1 + static_cast<int>(random() % 40);
    CpuSet allowed;
    const unsigned chance = 1 + random() % 8;
    for (const int cpu : topology.cpus.Members()) {
      if (random() % chance == 0) allowed.Add(cpu);
    }
    const absl::StatusOr<std::vector<CpuSet>> shares = PlanBinding(topology, kind, ranks, allowed);
    if (!shares.ok()) continue;
    ++planned;
    ASSERT_EQ(shares->size(), static_cast<size_t>(ranks));
    for (size_t i = 0; i < shares->size(); ++i) {
      const CpuSet& share = (*shares)[i];
      EXPECT_FALSE(share.empty());
      EXPECT_TRUE(allowed.Contains(share));
      int within = 0;  // of how many objects a part
      for (const TopologyObject& object : topology.ObjectsOf(kind))
        within += object.cpus.Intersects(share) ? 1 : 0;
      EXPECT_EQ(within, 1);
      for (size_t j = 0; j < i; ++j)
        EXPECT_TRUE((*shares)[j] == share || !(*shares)[j].Intersects(share));
    }
  }
  EXPECT_GT(planned, 200);
}

}  // namespace
}  // namespace weft
