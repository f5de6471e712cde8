// Agents of several islands in a simulated network: what they say of each other when processes are killed or stopped, machines
// are lost, and connections break or fall silent.
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "tests/comm/agent/island_job.h"
#include "tests/support/leak_check.h"

namespace weft::test::island_sim_test {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kSecondNs = 1'000 * kMs;
constexpr uint64_t kGroup = 77;

FailureRecord Record(weft_result_t result, int culprit, const std::string& sentence = "") {
  return {
      .group_id = kGroup,
      .finder = 0,
      .culprit = culprit,
      .result = result,
      .sentence = sentence.empty() ? StrCat("result ", result, " by rank ", culprit) : sentence};
}

// All islands that can speak.
template <typename Predicate>
bool EveryIsland(IslandJob* job, const Predicate& predicate) {
  for (int island = 0; island < job->islands(); ++island) {
    if (job->CanSpeak(island) && !predicate(island)) return false;
  }
  return true;
}

bool Quiet(IslandJob* job, int64_t ns) {
  return !job->RunUntil([] { return false; }, job->world().now_ns() + ns);
}

void ExpectNothingUnreachable(IslandJob* job) {
  for (int island = 0; island < job->islands(); ++island)
    EXPECT_TRUE(job->seen(island).unreachable_ns.empty()) << "island " << island;
}

TEST(IslandSim, AllIslandsConnectAndStayWithinTheTopology) {
  for (const int islands : {1, 2, 3, 4, 5, 7, 8, 16}) {
    for (uint64_t seed = 1; seed <= 5; ++seed) {
      SCOPED_TRACE(StrCat("islands ", islands, " seed ", seed));
      IslandJob job(seed, {.islands = islands, .ranks_per_island = 2});
      EXPECT_TRUE(Quiet(&job, 5 * kSecondNs));
      for (int island = 0; island < islands; ++island) {
        IslandAgent* const speaker = job.Speaker(island);
        ASSERT_NE(speaker, nullptr);
        EXPECT_EQ(speaker->reach()->connected().Count(), islands);
        EXPECT_TRUE(speaker->reach()->own().lost.empty());
        const auto expected = IslandTopology(islands).NeighboursOf(island).size();
        EXPECT_EQ(speaker->connection_count(), expected);
      }
      ExpectNothingUnreachable(&job);
      job.ExpectSafe();
    }
  }
}

TEST(IslandSim, ARecordReachesAllAndSettles) {
  for (const int islands : {1, 2, 3, 5, 8, 16}) {
    for (uint64_t seed = 1; seed <= 5; ++seed) {
      SCOPED_TRACE(StrCat("islands ", islands, " seed ", seed));
      IslandJob job(seed, {.islands = islands, .ranks_per_island = 2});
      const int64_t raised_ns = job.world().now_ns() + 3 * kSecondNs;
      job.RaiseAt(raised_ns, islands - 1, Record(WEFT_TIMEOUT, 0));
      job.RaiseAt(raised_ns + 5 * kMs, 0, Record(WEFT_MISMATCH, 1));
      ASSERT_TRUE(job.RunUntil(
          [&] {
            return EveryIsland(
                &job, [&](int island) { return job.seen(island).settled.count(kGroup) != 0; });
          },
          raised_ns + 2 * kSecondNs));
      for (int island = 0; island < islands; ++island) {
        EXPECT_LE(job.seen(island).failed_ns.at(kGroup), raised_ns + kSecondNs);
        EXPECT_EQ(job.seen(island).settled.at(kGroup).record.result, WEFT_MISMATCH);
      }
      job.ExpectSafe();
    }
  }
}

// Who reads it may end its process at once, and with it what the process has still to say.
TEST(IslandSim, ACauseIsToldToOthersBeforeTheIslandReadsIt) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(StrCat("seed ", seed));
    IslandJob job(seed, {.islands = 2, .ranks_per_island = 1});
    std::vector<std::optional<uint64_t>> frames_when_written(2);
    for (const int island : {0, 1}) {
      job.memory(island).on_verdict = [&, island](const GroupVerdict& verdict) {
        auto& frames = frames_when_written[static_cast<size_t>(island)];
        if (!verdict.settled || frames) return;
        frames = job.Speaker(island)->frames_sent();
      };
    }
    const int64_t raised_ns = job.world().now_ns() + 3 * kSecondNs;
    job.RaiseAt(raised_ns, static_cast<int>(seed % 2), Record(WEFT_MISMATCH, 1));
    EXPECT_TRUE(Quiet(&job, 5 * kSecondNs));
    for (const int island : {0, 1}) {
      ASSERT_TRUE(frames_when_written[static_cast<size_t>(island)].has_value());
      EXPECT_EQ(*frames_when_written[static_cast<size_t>(island)],
                job.Speaker(island)->frames_sent());
    }
    job.ExpectSafe();
  }
}

TEST(IslandSim, AKilledSpeakerIsAFactEverywhereAndItsIslandIsReachable) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(StrCat("seed ", seed));
    IslandJob job(seed, {.islands = 5, .ranks_per_island = 2});
    const int64_t killed_ns = job.world().now_ns() + 3 * kSecondNs;
    job.world().KillAt(job.node(2, 0), killed_ns, {.signal = 11});
    ASSERT_TRUE(job.RunUntil(
        [&] {
          return EveryIsland(&job, [&](int island) {
            return job.seen(island).dead_ns.count(job.RankOf(2, 0)) != 0;
          });
        },
        killed_ns + kSecondNs));
    EXPECT_TRUE(Quiet(&job, 6 * kSecondNs));
    ExpectNothingUnreachable(&job);
    for (int island = 0; island < job.islands(); ++island)
      EXPECT_EQ(job.Speaker(island)->reach()->connected().Count(), 5);
    job.ExpectSafe();
  }
}

// Who spoke before has written what it saw, and may have ended before its island was told.
TEST(IslandSim, ANewSpeakerSaysWhatTheOneBeforeItSaw) {
  IslandJob job(1, {.islands = 2, .ranks_per_island = 3});
  job.world().KillAt(job.node(1, 1), job.world().now_ns() + kSecondNs, {.signal = 9});
  EXPECT_TRUE(Quiet(&job, 2 * kSecondNs));
  IslandAgent& next = job.agent(1, 2);
  ASSERT_TRUE(next.Speak().ok());
  const std::optional<IslandEvent> event = next.NextEvent();
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->kind, IslandEvent::Kind::kRankDead);
  EXPECT_EQ(event->rank, job.RankOf(1, 1));
  EXPECT_EQ(event->exit.signal, 9);
}

// Two islands lose sight of each other for so long that the connection ends, and a third one sees both: it passes the question
// on, and nothing is reported.
TEST(IslandSim, ALostConnectionIsAQuestionThatAnotherIslandPassesOn) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(StrCat("seed ", seed));
    IslandJob job(seed, {.islands = 3, .ranks_per_island = 1});
    const int64_t cut_ns = job.world().now_ns() + 3 * kSecondNs;
    for (const auto& [from, to] : {std::pair(0, 1), {1, 0}}) {
      job.world().SilenceBetween(job.node(from, 0), job.node(to, 0), cut_ns,
                                 cut_ns + 10 * kSecondNs);
    }
    EXPECT_TRUE(
        job.RunUntil([&] { return job.agent(0, 0).answers() > 0 && job.agent(1, 0).answers() > 0; },
                     cut_ns + 2 * kSecondNs));
    EXPECT_TRUE(Quiet(&job, 12 * kSecondNs));
    ExpectNothingUnreachable(&job);
    job.ExpectSafe();
  }
}

TEST(IslandSim, AStoppedSpeakerIsNotUnreachableWhereAnotherProcessCanSpeak) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(StrCat("seed ", seed));
    IslandJob job(seed, {.islands = 4, .ranks_per_island = 3});
    const int64_t stopped_ns = job.world().now_ns() + 3 * kSecondNs;
    job.world().StopBetween(job.node(1, 0), stopped_ns, stopped_ns + 10 * kSecondNs);
    job.world().StopBetween(job.node(1, 1), stopped_ns, stopped_ns + 7 * kSecondNs);
    job.RaiseAt(stopped_ns + 2 * kSecondNs, 0, Record(WEFT_TIMEOUT, 3));
    EXPECT_TRUE(Quiet(&job, 20 * kSecondNs));
    ExpectNothingUnreachable(&job);
    for (int island = 0; island < job.islands(); ++island)
      EXPECT_EQ(job.seen(island).settled.count(kGroup), 1u);
    job.ExpectSafe();
  }
}

// Its machine answers, and tells that from one that is cut off, whether the connection stays or has to be made anew: by a new speaker of the
// other side, or because it broke.
TEST(IslandSim, AnIslandThatIsStoppedForLongIsStalledAndNotUnreachable) {
  enum class Meanwhile { kNothing, kBreaks, kNewSpeakers };
  for (const Meanwhile meanwhile :
       {Meanwhile::kNothing, Meanwhile::kBreaks, Meanwhile::kNewSpeakers}) {
    for (uint64_t seed = 1; seed <= 10; ++seed) {
      SCOPED_TRACE(StrCat("seed ", seed, ", meanwhile ", static_cast<int>(meanwhile)));
      IslandJob job(seed, {.islands = 3, .ranks_per_island = 2});
      const int64_t stopped_ns = job.world().now_ns() + 3 * kSecondNs;
      const int64_t goes_on_ns = stopped_ns + 60 * kSecondNs;
      for (int process = 0; process < 2; ++process)
        job.world().StopBetween(job.node(1, process), stopped_ns, goes_on_ns);
      if (meanwhile == Meanwhile::kBreaks) {
        for (int i = 0; i < 6; ++i)
          job.world().BreakSomeConnectionAt(stopped_ns + (10 + i) * kSecondNs);
      }
      if (meanwhile == Meanwhile::kNewSpeakers) {
        job.world().KillAt(job.node(0, 0), stopped_ns + 10 * kSecondNs);
        job.world().KillAt(job.node(2, 0), stopped_ns + 12 * kSecondNs);
      }
      ASSERT_TRUE(job.RunUntil(
          [&] {
            return job.Speaker(0)->reach()->Stalled().Has(1) &&
                   job.Speaker(2)->reach()->Stalled().Has(1);
          },
          stopped_ns + 2 * kSecondNs));
      EXPECT_TRUE(Quiet(&job, 55 * kSecondNs));
      for (const int island : {0, 2}) {
        EXPECT_EQ(job.Speaker(island)->reach()->connected().Count(), 3);
        EXPECT_EQ(job.Speaker(island)->reach()->Stalled().ToString(), "1");
      }
      ASSERT_TRUE(job.RunUntil(
          [&] {
            return EveryIsland(&job, [&](int island) {
              return job.Speaker(island) != nullptr &&
                     job.Speaker(island)->reach()->Stalled().Empty();
            });
          },
          goes_on_ns + 3 * kSecondNs));
      ExpectNothingUnreachable(&job);
      job.RaiseAt(job.world().now_ns(), 0, Record(WEFT_TIMEOUT, 3));
      EXPECT_TRUE(Quiet(&job, 6 * kSecondNs));
      for (int island = 0; island < job.islands(); ++island)
        EXPECT_EQ(job.seen(island).settled.count(kGroup), 1u);
      ExpectNothingUnreachable(&job);
      job.ExpectSafe();
    }
  }
}

// Who is stopped cannot be told apart from who is gone when its machine is cut off as well.
TEST(IslandSim, AStoppedIslandThatIsCutOffIsUnreachable) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE(StrCat("seed ", seed));
    IslandJob job(seed, {.islands = 2});
    const int64_t stopped_ns = job.world().now_ns() + 3 * kSecondNs;
    job.world().StopBetween(job.node(1, 0), stopped_ns, SimWorld::kForever);
    const int64_t cut_ns = stopped_ns + 40 * kSecondNs;
    for (const auto& [from, to] : {std::pair(0, 1), {1, 0}})
      job.world().SilenceBetween(job.node(from, 0), job.node(to, 0), cut_ns, SimWorld::kForever);
    EXPECT_FALSE(
        job.RunUntil([&] { return !job.Speaker(0)->reach()->unreachable().Empty(); }, cut_ns));
    EXPECT_TRUE(job.RunUntil([&] { return job.Speaker(0)->reach()->unreachable().Has(1); },
                             cut_ns + 7 * kSecondNs));
    EXPECT_FALSE(job.Speaker(0)->reach()->Stalled().Has(1));
  }
}

// As by a job manager, at any moment: on its way to the first connections, for long, and for many short turns after that.
TEST(IslandSim, AJobThatIsStoppedAsAWholeMissesNobody) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(StrCat("seed ", seed));
    IslandJob job(seed, {.islands = 2, .ranks_per_island = 2});
    int64_t at_ns = job.world().now_ns() + static_cast<int64_t>(seed) * kMs;
    for (int turn = 0; turn < 12; ++turn) {
      const int64_t until_ns = at_ns + (turn == 0 ? 10 : 3) * kSecondNs;
      for (int island = 0; island < 2; ++island) {
        for (int process = 0; process < 2; ++process)
          job.world().StopBetween(job.node(island, process), at_ns, until_ns);
      }
      at_ns = until_ns + 5 * kMs;
    }
    EXPECT_TRUE(Quiet(&job, 60 * kSecondNs));
    ExpectNothingUnreachable(&job);
    for (int island = 0; island < 2; ++island)
      EXPECT_EQ(job.Speaker(island)->reach()->connected().Count(), 2);
    job.ExpectSafe();
  }
}

// Islands 0 and 1 are no longer heard by 2, 3 and 4, nor, if `both`, the other way round.
void CutOffTwoOfFive(IslandJob* job, bool both, int64_t at_ns) {
  SimWorld& world = job->world();
  for (int far = 0; far < 2; ++far) {
    for (int near = 2; near < 5; ++near) {
      world.SilenceBetween(job->node(far, 0), job->node(near, 0), at_ns, SimWorld::kForever);
      if (both)
        world.SilenceBetween(job->node(near, 0), job->node(far, 0), at_ns, SimWorld::kForever);
    }
  }
}

TEST(IslandSim, BothSidesOfAPartitionFindTheOtherOneUnreachable) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    for (const bool both : {true, false}) {
      SCOPED_TRACE(StrCat("seed ", seed, both ? " both ways" : " one way"));
      IslandJob job(seed, {.islands = 5, .ranks_per_island = 2});
      const int64_t cut_ns = job.world().now_ns() + 3 * kSecondNs;
      CutOffTwoOfFive(&job, both, cut_ns);
      EXPECT_TRUE(job.RunUntil(
          [&] {
            for (int island = 0; island < 5; ++island) {
              if (job.seen(island).unreachable_ns.size() != (island < 2 ? 3u : 2u)) return false;
            }
            return true;
          },
          cut_ns + 4 * kSecondNs));
      for (int island = 0; island < 5; ++island) {
        for (const auto& [other, found_ns] : job.seen(island).unreachable_ns) {
          EXPECT_GE(found_ns, cut_ns + 2 * kSecondNs);
          EXPECT_NE(other < 2, island < 2);
        }
      }
      job.ExpectSafe();
    }
  }
}

// However the connection ended, or if there was none yet: the limit counts from when something was last heard.
TEST(IslandSim, AnIslandIsMissedOnlyAfterTheLimit) {
  enum class How { kSilentFromTheStart, kSilent, kBroken };
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    for (const How how : {How::kSilentFromTheStart, How::kSilent, How::kBroken}) {
      SCOPED_TRACE(StrCat("seed ", seed, " how ", static_cast<int>(how)));
      IslandJob job(seed, {.islands = 2});
      const int64_t start_ns = job.world().now_ns();
      const int64_t cut_ns = start_ns + (how == How::kSilentFromTheStart ? 0 : 3 * kSecondNs);
      SimNode* const ends[] = {job.node(0, 0), job.node(1, 0)};
      if (how == How::kBroken) job.world().BreakSomeConnectionAt(cut_ns);
      for (const int from : {0, 1})
        job.world().SilenceBetween(ends[from], ends[1 - from], cut_ns, cut_ns + 30 * kSecondNs);
      EXPECT_TRUE(job.RunUntil(
          [&] {
            return !job.seen(0).unreachable_ns.empty() && !job.seen(1).unreachable_ns.empty();
          },
          cut_ns + 4 * kSecondNs));
      for (int island = 0; island < 2; ++island) {
        for (const auto& [other, found_ns] : job.seen(island).unreachable_ns) {
          // Something is heard every eighth of the limit.
          EXPECT_GE(found_ns, cut_ns + 3 * kSecondNs * 6 / 8);
        }
      }
    }
  }
}

TEST(IslandSim, ALostMachineIsDeadIfItsLauncherSaysSoElseUnreachable) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    for (const bool launcher : {true, false}) {
      SCOPED_TRACE(StrCat("seed ", seed, launcher ? " with" : " without", " launcher"));
      IslandJob job(seed, {.islands = 3, .ranks_per_island = 2, .launcher = launcher});
      const int64_t killed_ns = job.world().now_ns() + 3 * kSecondNs;
      for (int process = 0; process < 2; ++process)
        job.world().KillAt(job.node(1, process), killed_ns);
      const int64_t deadline_ns = killed_ns + 20 * kSecondNs;
      for (int island = 0; island < 3; ++island)
        job.ReconfigureAt(killed_ns + 100 * kMs, island, deadline_ns);
      ASSERT_TRUE(job.RunUntil(
          [&] { return job.seen(0).agreed.count(2) != 0 && job.seen(2).agreed.count(2) != 0; },
          killed_ns + (launcher ? 2 : 8) * kSecondNs));
      EXPECT_EQ(job.seen(0).agreed.at(2).Numbers(), (std::vector<int>{0, 1, 4, 5}));
      EXPECT_EQ(job.seen(0).unreachable_ns.empty(), launcher);
      EXPECT_EQ(job.seen(0).dead_ns.empty(), !launcher);
      job.ExpectSafe();
    }
  }
}

// Of two islands that cannot reach each other the one with the store goes on.
TEST(IslandSim, ATieGoesToTheSideOfTheStore) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(StrCat("seed ", seed));
    IslandJob job(seed, {.islands = 2, .ranks_per_island = 2});
    const int64_t cut_ns = job.world().now_ns() + 3 * kSecondNs;
    job.world().SilenceBetween(job.node(0, 0), job.node(1, 0), cut_ns, cut_ns + 30 * kSecondNs);
    job.world().SilenceBetween(job.node(1, 0), job.node(0, 0), cut_ns, cut_ns + 30 * kSecondNs);
    for (int island = 0; island < 2; ++island)
      job.ReconfigureAt(cut_ns + kSecondNs, island, cut_ns + 20 * kSecondNs);
    EXPECT_TRUE(
        job.RunUntil([&] { return job.seen(0).agreed.count(2) != 0 && job.seen(1).no_quorum == 1; },
                     cut_ns + 8 * kSecondNs));
    EXPECT_EQ(job.seen(0).agreed.at(2).Numbers(), (std::vector<int>{0, 1}));
    // When the network is whole again the other side learns what has happened.
    EXPECT_TRUE(job.RunUntil([&] { return job.seen(1).left_behind; }, cut_ns + 45 * kSecondNs));
    job.ExpectSafe();
  }
}

TEST(IslandSim, WhoDoesNotComeIsNamedAtTheDeadline) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE(StrCat("seed ", seed));
    IslandJob job(seed, {.islands = 3, .ranks_per_island = 2});
    const int64_t begin_ns = job.world().now_ns() + 3 * kSecondNs;
    for (const int island : {0, 2})
      job.ReconfigureAt(begin_ns, island, begin_ns + 5 * kSecondNs);
    EXPECT_TRUE(
        job.RunUntil([&] { return job.seen(0).ends_without == 1 && job.seen(2).ends_without == 1; },
                     begin_ns + 6 * kSecondNs));
    EXPECT_EQ(job.seen(0).late.Numbers(), (std::vector<int>{2, 3}));
    EXPECT_EQ(job.seen(2).late.Numbers(), (std::vector<int>{2, 3}));
    // It comes after all, and the others try again.
    for (int island = 0; island < 3; ++island)
      job.ReconfigureAt(begin_ns + 7 * kSecondNs, island, begin_ns + 20 * kSecondNs);
    EXPECT_TRUE(job.RunUntil(
        [&] {
          return EveryIsland(&job,
                             [&](int island) { return job.seen(island).agreed.count(2) != 0; });
        },
        begin_ns + 10 * kSecondNs));
    EXPECT_EQ(job.seen(0).agreed.at(2).Count(), 6);
    job.ExpectSafe();
  }
}

}  // namespace
}  // namespace weft::test::island_sim_test
