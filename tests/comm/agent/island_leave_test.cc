// Processes that leave their job though they live, in a simulated network: the others know it as they know a death, nobody takes it for one,
// nobody who has left is looked for, and whoever leaves may go.
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/text.h"
#include "tests/comm/agent/island_job.h"
#include "tests/support/leak_check.h"

namespace weft::test::island_leave_test {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kSecondNs = 1'000 * kMs;
constexpr uint64_t kGroup = 77;

int64_t UpTo(IslandJob* job, int64_t ns) {
  return static_cast<int64_t>(job->world().Pick(static_cast<uint64_t>(ns)));
}

bool Quiet(IslandJob* job, int64_t ns) {
  return !job->RunUntil([] { return false; }, job->world().now_ns() + ns);
}

bool AllGone(IslandJob* job, int island) {
  for (int process = 0; process < job->processes(); ++process) {
    if (job->node(island, process)->alive() && !job->Gone(island, process)) return false;
  }
  return true;
}

// All of the island leave, one after the other or together.
void LeaveIsland(IslandJob* job, int island, int64_t at_ns, int64_t spread_ns) {
  for (int process = 0; process < job->processes(); ++process)
    job->LeaveAt(at_ns + UpTo(job, spread_ns), island, process);
}

// All islands with ranks that stay.
template <typename Predicate>
bool EveryIslandThatStays(IslandJob* job, const Predicate& predicate) {
  for (int island = 0; island < job->islands(); ++island) {
    if (!job->LivingRanks(island).empty() && !predicate(island)) return false;
  }
  return true;
}

bool KnowsThatAllLeft(IslandJob* job, int island, int other) {
  for (int process = 0; process < job->processes(); ++process) {
    if (job->seen(island).left_ns.count(job->RankOf(other, process)) == 0) return false;
  }
  return true;
}

// Nobody is missed, for longer than it takes to be missed, and nobody is called dead.
void ExpectNobodyMissed(IslandJob* job) {
  EXPECT_TRUE(Quiet(job, 12 * kSecondNs));
  for (int island = 0; island < job->islands(); ++island) {
    EXPECT_TRUE(job->seen(island).unreachable_ns.empty()) << "island " << island;
    for (int process = 0; process < job->processes(); ++process)
      EXPECT_FALSE(job->GaveUp(island, process)) << "process " << island << "." << process;
  }
  job->ExpectSafe();
}

TEST(IslandLeave, WhoSpeaksLeavesWhenAnotherOneHasTakenOver) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(StrCat("seed ", seed));
    IslandJob job(seed, {.islands = 3, .ranks_per_island = 3});
    const int64_t left_ns = job.world().now_ns() + 3 * kSecondNs + UpTo(&job, 200 * kMs);
    job.LeaveAt(left_ns, 1, 0);
    EXPECT_TRUE(job.RunUntil(
        [&] {
          return job.Gone(1, 0) && EveryIslandThatStays(&job, [&](int island) {
                   return job.seen(island).left_ns.count(job.RankOf(1, 0)) != 0;
                 });
        },
        left_ns + kSecondNs));
    EXPECT_EQ(job.Speaker(1), &job.agent(1, 1));
    ExpectNobodyMissed(&job);
    for (int island = 0; island < job.islands(); ++island)
      EXPECT_EQ(job.Speaker(island)->reach()->connected().Count(), 3);
  }
}

// So many that not all are neighbours: the last of them has nobody left who would tell it on, and looks for somebody.
TEST(IslandLeave, WhoseNeighboursHaveAllLeftIsHeardByThoseThatStay) {
  for (const int islands : {6, 8, 11}) {
    for (uint64_t seed = 1; seed <= 6; ++seed) {
      SCOPED_TRACE(StrCat(islands, " islands, seed ", seed));
      IslandJob job(seed, {.islands = islands, .ranks_per_island = 1});
      const int64_t left_ns = job.world().now_ns() + 3 * kSecondNs;
      const IslandMembership membership(job.map(), 1, IslandNumberSet::All(islands));
      constexpr int kStays = 0;
      int last = -1;
      for (int island = 1; island < islands; ++island) {
        if (!membership.AreNeighbours(kStays, island)) last = island;
      }
      ASSERT_GE(last, 0);
      for (int island = 1; island < islands; ++island)
        LeaveIsland(&job, island, island == last ? left_ns + 100 * kMs : left_ns, 5 * kMs);
      EXPECT_TRUE(
          job.RunUntil([&] { return AllGone(&job, last) && KnowsThatAllLeft(&job, kStays, last); },
                       left_ns + 2 * kSecondNs));
      ExpectNobodyMissed(&job);
    }
  }
}

TEST(IslandLeave, OneThatDoesNotSpeakLeavesAndTheSpeakerGoesOn) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    for (const int process : {1, 2}) {
      SCOPED_TRACE(StrCat("seed ", seed, ", process ", process));
      IslandJob job(seed, {.islands = 3, .ranks_per_island = 3});
      const int64_t left_ns = job.world().now_ns() + 3 * kSecondNs + UpTo(&job, 200 * kMs);
      job.LeaveAt(left_ns, 1, process);
      EXPECT_TRUE(job.RunUntil(
          [&] {
            return job.Gone(1, process) && EveryIslandThatStays(&job, [&](int island) {
                     return job.seen(island).left_ns.count(job.RankOf(1, process)) != 0;
                   });
          },
          left_ns + kSecondNs));
      EXPECT_EQ(job.Speaker(1), &job.agent(1, 0));
      ExpectNobodyMissed(&job);
    }
  }
}

TEST(IslandLeave, AllOfAnIslandLeaveInAnyOrder) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    for (const int64_t spread_ns : {int64_t{1}, 5 * kMs, kSecondNs}) {
      SCOPED_TRACE(StrCat("seed ", seed, ", within ", spread_ns / kMs, " ms"));
      IslandJob job(seed, {.islands = 4, .ranks_per_island = 3});
      const int64_t left_ns = job.world().now_ns() + 3 * kSecondNs + UpTo(&job, 200 * kMs);
      LeaveIsland(&job, 1, left_ns, spread_ns);
      EXPECT_TRUE(job.RunUntil(
          [&] {
            return AllGone(&job, 1) && EveryIslandThatStays(&job, [&](int island) {
                     return KnowsThatAllLeft(&job, island, 1);
                   });
          },
          left_ns + spread_ns + kSecondNs));
      ExpectNobodyMissed(&job);
    }
  }
}

TEST(IslandLeave, TwoIslandsLeaveAtOnceAndAThirdOneKnowsOfBoth) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(StrCat("seed ", seed));
    IslandJob job(seed, {.islands = 3, .ranks_per_island = 2});
    const int64_t left_ns = job.world().now_ns() + 3 * kSecondNs + UpTo(&job, 200 * kMs);
    for (const int island : {1, 2})
      LeaveIsland(&job, island, left_ns, 5 * kMs);
    EXPECT_TRUE(job.RunUntil(
        [&] {
          return AllGone(&job, 1) && AllGone(&job, 2) && KnowsThatAllLeft(&job, 0, 1) &&
                 KnowsThatAllLeft(&job, 0, 2);
        },
        left_ns + kSecondNs));
    ExpectNobodyMissed(&job);
  }
}

TEST(IslandLeave, AllIslandsLeaveAtOnceAndNobodyWaitsForTheOthers) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    for (const int islands : {1, 2, 5}) {
      SCOPED_TRACE(StrCat("seed ", seed, ", ", islands, " islands"));
      IslandJob job(seed, {.islands = islands, .ranks_per_island = 2});
      const int64_t left_ns = job.world().now_ns() + 3 * kSecondNs + UpTo(&job, 200 * kMs);
      for (int island = 0; island < islands; ++island)
        LeaveIsland(&job, island, left_ns, 5 * kMs);
      EXPECT_TRUE(job.RunUntil(
          [&] {
            for (int island = 0; island < islands; ++island) {
              if (!AllGone(&job, island)) return false;
            }
            return true;
          },
          left_ns + kSecondNs));
      ExpectNobodyMissed(&job);
    }
  }
}

// The last process of an island goes when it has an answer. What it says is under way when the connection is given up on both sides.
TEST(IslandLeave, ALastWordThatIsLostIsSaidAgain) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(StrCat("seed ", seed));
    IslandJob job(seed, {.islands = 2, .ranks_per_island = 1, .leave_patience_ns = 2'500 * kMs});
    const int64_t left_ns = job.world().now_ns() + 3 * kSecondNs + UpTo(&job, 200 * kMs);
    for (const int from : {0, 1}) {
      job.world().SilenceBetween(job.node(from, 0), job.node(1 - from, 0), left_ns - 1,
                                 left_ns + 1'200 * kMs);
    }
    job.LeaveAt(left_ns, 1, 0);
    EXPECT_TRUE(job.RunUntil([&] { return job.Gone(1, 0) && KnowsThatAllLeft(&job, 0, 1); },
                             left_ns + 2'500 * kMs));
    ExpectNobodyMissed(&job);
  }
}

// Its neighbour has no CPU, and does not even listen: it was never connected with.
TEST(IslandLeave, OneThatWasNeverConnectedWithIsToldThatAndWhyAGroupHasEnded) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    for (const int leaver : {0, 1}) {
      SCOPED_TRACE(StrCat("seed ", seed, ", island ", leaver, " leaves"));
      IslandJob job(seed, {.islands = 2, .ranks_per_island = 1});
      const int stays = 1 - leaver;
      const int64_t begin_ns = job.world().now_ns() + 1;
      job.world().StopBetween(job.node(stays, 0), begin_ns, begin_ns + 1'500 * kMs);
      job.RaiseAt(begin_ns + 10 * kMs, leaver,
                  {.group_id = kGroup,
                   .finder = leaver,
                   .culprit = leaver,
                   .result = WEFT_MISMATCH,
                   .sentence = "refused"});
      job.LeaveAt(begin_ns + 20 * kMs + UpTo(&job, 200 * kMs), leaver, 0);
      EXPECT_TRUE(job.RunUntil(
          [&] {
            return job.Gone(leaver, 0) && KnowsThatAllLeft(&job, stays, leaver) &&
                   job.seen(stays).settled.count(kGroup) != 0;
          },
          begin_ns + 3 * kSecondNs));
      ExpectNobodyMissed(&job);
    }
  }
}

// Those who knew it may be gone as well: it stands in the island's memory.
TEST(IslandLeave, ANewSpeakerKnowsOfAnIslandThatLeftBefore) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    for (const bool leaves : {true, false}) {
      SCOPED_TRACE(StrCat("seed ", seed, leaves ? ", the one before leaves" : ", it is killed"));
      IslandJob job(seed, {.islands = 2, .ranks_per_island = 2});
      const int64_t left_ns = job.world().now_ns() + 3 * kSecondNs + UpTo(&job, 200 * kMs);
      LeaveIsland(&job, 1, left_ns, 5 * kMs);
      if (leaves)
        job.LeaveAt(left_ns + kSecondNs, 0, 0);
      else
        job.world().KillAt(job.node(0, 0), left_ns + kSecondNs);
      EXPECT_TRUE(job.RunUntil([&] { return job.Speaker(0) == &job.agent(0, 1); },
                               left_ns + 2 * kSecondNs));
      ExpectNobodyMissed(&job);
    }
  }
}

// The one that speaks is killed or stopped at any point of leaving, and the other one, which leaves as well, is left to say it.
TEST(IslandLeave, ALeaverThatIsKilledOrStoppedIsReplacedByAnother) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    for (const bool killed : {true, false}) {
      SCOPED_TRACE(StrCat("seed ", seed, killed ? ", killed" : ", stopped"));
      // That one is stopped is known after a fifteenth of the limit, and the others then have to be connected with anew.
      IslandJob job(seed, {.islands = 3, .ranks_per_island = 2, .leave_patience_ns = 1'500 * kMs});
      const int64_t left_ns = job.world().now_ns() + 3 * kSecondNs + UpTo(&job, 200 * kMs);
      const int64_t struck_ns = left_ns + 2 + UpTo(&job, 3 * kMs);
      job.LeaveAt(left_ns, 1, 0);
      // Before the first one is struck it knows, or just not.
      job.LeaveAt(struck_ns - 1 + UpTo(&job, 2) * kMs, 1, 1);
      if (killed)
        job.world().KillAt(job.node(1, 0), struck_ns);
      else
        job.world().StopBetween(job.node(1, 0), struck_ns, struck_ns + 20 * kSecondNs);
      EXPECT_TRUE(job.RunUntil(
          [&] {
            return job.Gone(1, 1) && KnowsThatAllLeft(&job, 0, 1) && KnowsThatAllLeft(&job, 2, 1);
          },
          struck_ns + (killed ? 1 : 2) * kSecondNs));
      ExpectNobodyMissed(&job);
    }
  }
}

// Who leaves while an epoch ends may find that the next one is without it.
TEST(IslandLeave, ALeaverThatWasStoppedGoesThoughAnotherEpochHasBegun) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(StrCat("seed ", seed));
    IslandJob job(seed, {.islands = 2, .ranks_per_island = 2, .leave_patience_ns = 60 * kSecondNs});
    const int64_t left_ns = job.world().now_ns() + 3 * kSecondNs + UpTo(&job, 200 * kMs);
    job.LeaveAt(left_ns, 1, 1);
    job.world().StopBetween(job.node(1, 1), left_ns + 1, left_ns + 5 * kSecondNs);
    for (int island = 0; island < 2; ++island)
      job.ReconfigureAt(left_ns + kSecondNs, island, left_ns + 10 * kSecondNs);
    EXPECT_TRUE(job.RunUntil([&] { return job.Gone(1, 1) && job.seen(0).agreed.count(2) != 0; },
                             left_ns + 6 * kSecondNs));
    EXPECT_EQ(job.seen(0).agreed.at(2).Numbers(), (std::vector<int>{0, 1, 2}));
    ExpectNobodyMissed(&job);
  }
}

TEST(IslandLeave, CausesSettleWhileIslandsLeave) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(StrCat("seed ", seed));
    IslandJob job(seed, {.islands = 5, .ranks_per_island = 2});
    const int64_t failed_ns = job.world().now_ns() + 3 * kSecondNs + UpTo(&job, 200 * kMs);
    const auto soon = [&] {
      return failed_ns + UpTo(&job, 60 * kMs);
    };
    for (const int island : {1, 2, 4}) {
      job.RaiseAt(soon(), island,
                  {.group_id = kGroup,
                   .finder = island,
                   .culprit = island,
                   .result = WEFT_TIMEOUT,
                   .sentence = StrCat("a timeout by rank ", island)});
    }
    LeaveIsland(&job, 2, soon(), 5 * kMs);
    LeaveIsland(&job, 3, soon(), 5 * kMs);
    job.LeaveAt(soon(), 1, 0);
    EXPECT_TRUE(job.RunUntil(
        [&] {
          return AllGone(&job, 2) && AllGone(&job, 3) && job.Gone(1, 0) &&
                 EveryIslandThatStays(
                     &job, [&](int island) { return job.seen(island).settled.count(kGroup) != 0; });
        },
        failed_ns + 2 * kSecondNs));
    for (const int island : {1, 4}) {
      EXPECT_TRUE(job.seen(island).settled.at(kGroup).record ==
                  job.seen(0).settled.at(kGroup).record);
    }
    ExpectNobodyMissed(&job);
  }
}

TEST(IslandLeave, WhoHasLeftIsNotInTheNextMembership) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(StrCat("seed ", seed));
    IslandJob job(seed, {.islands = 5, .ranks_per_island = 2});
    const int64_t begin_ns = job.world().now_ns() + 3 * kSecondNs + UpTo(&job, 200 * kMs);
    const auto soon = [&] {
      return begin_ns + UpTo(&job, 30 * kMs);
    };
    // These do not wait for a membership: they leave as the others begin to.
    LeaveIsland(&job, 2, soon(), 5 * kMs);
    job.LeaveAt(begin_ns, 1, static_cast<int>(UpTo(&job, 2)));
    for (const int island : {0, 1, 3, 4})
      job.ReconfigureAt(begin_ns + 1 + UpTo(&job, 30 * kMs), island, begin_ns + 20 * kSecondNs);
    ASSERT_TRUE(job.RunUntil(
        [&] {
          return AllGone(&job, 2) && EveryIslandThatStays(&job, [&](int island) {
                   return job.seen(island).agreed.count(2) != 0;
                 });
        },
        begin_ns + 2 * kSecondNs));
    const IslandNumberSet& members = job.seen(0).agreed.at(2);
    EXPECT_EQ(members.Count(), 7);
    for (const int rank : {4, 5})
      EXPECT_FALSE(members.Has(rank));
    ExpectNobodyMissed(&job);
  }
}

}  // namespace
}  // namespace weft::test::island_leave_test
