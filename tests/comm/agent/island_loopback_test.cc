// Agents of several islands as processes of this machine, over TCP: what they say of each other when processes are killed or stopped,
// connections break, and the network between two namespaces goes down. Each test prints how long it took until all knew.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/text.h"
#include "base/wait.h"
#include "tests/comm/agent/real_islands.h"
#include "tests/support/case_sample.h"
#include "tests/support/leak_check.h"

namespace weft::test {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kSecondNs = 1'000 * kMs;
// What a loaded machine of two cores may take longer.
constexpr int64_t kSlackNs = 2 * kSecondNs;
constexpr uint64_t kGroup = 77;

using Kind = IslandEvent::Kind;

void Print(const char* what, int64_t since_ns, int64_t at_ns) {
  std::printf("%s: %.1f ms\n", what, static_cast<double>(at_ns - since_ns) / 1e6);
}

// When the last of them was told; `without` is not asked.
template <typename Find>
int64_t LastNs(const RealIslands& job, const Find& find, int without = -1) {
  int64_t last_ns = 0;
  for (int island = 0; island < job.islands(); ++island) {
    if (island == without) continue;
    const std::optional<RealEvent> event = find(island);
    if (event) last_ns = std::max(last_ns, event->time_ns);
  }
  return last_ns;
}

void ExpectNoVerdict(const RealIslands& job) {
  for (int island = 0; island < job.islands(); ++island) {
    EXPECT_EQ(job.Count(island, Kind::kUnreachable), 0) << job.Describe();
    EXPECT_EQ(job.Count(island, Kind::kRankDead), 0) << job.Describe();
  }
}

// All have settled the group, with one winner, which it returns.
weft_result_t ExpectOneCause(RealIslands* job, uint64_t group, int64_t within_ns) {
  EXPECT_TRUE(job->AwaitAll([&](int island) { return job->FindSettled(island, group).has_value(); },
                            within_ns))
      << job->Describe();
  const std::optional<RealEvent> first = job->FindSettled(0, group);
  if (!first) return WEFT_SUCCESS;
  for (int island = 1; island < job->islands(); ++island) {
    const std::optional<RealEvent> event = job->FindSettled(island, group);
    if (!event) continue;
    EXPECT_EQ(event->result, first->result) << job->Describe();
    EXPECT_EQ(event->culprit, first->culprit) << job->Describe();
  }
  return first->result;
}

TEST(IslandLoopback, AKilledProcessIsKnownEverywhereWithItsSignal) {
  for (const int islands : {2, 3, 4}) {
    SCOPED_TRACE(StrCat("islands ", islands));
    RealIslands job({.islands = islands, .ranks_per_island = 2});
    ASSERT_EQ(job.AwaitConnected(), "");
    const int rank = job.RankOf(1, 1);
    const int64_t killed_ns = MonotonicNs();
    job.Signal(1, 1, SIGKILL);
    EXPECT_TRUE(job.AwaitAll([&](int island) { return job.FindDeath(island, rank).has_value(); },
                             kSecondNs))
        << job.Describe();
    Print("a killed process known everywhere", killed_ns,
          LastNs(job, [&](int island) { return job.FindDeath(island, rank); }));
    for (int island = 0; island < islands; ++island) {
      const std::optional<RealEvent> death = job.FindDeath(island, rank);
      ASSERT_TRUE(death.has_value());
      EXPECT_EQ(death->signal, SIGKILL);
      EXPECT_EQ(job.Count(island, Kind::kRankDead), 1) << job.Describe();
      EXPECT_EQ(job.Count(island, Kind::kUnreachable), 0) << job.Describe();
    }
  }
}

TEST(IslandLoopback, AfterAKilledSpeakerTheNextOneSpeaksAndNothingIsLost) {
  RealIslands job({.islands = 3, .ranks_per_island = 3});
  ASSERT_EQ(job.AwaitConnected(), "");
  ASSERT_EQ(job.Speaker(1), 0);
  const int rank = job.RankOf(1, 0);
  // What its ranks want to say while nobody speaks.
  job.Signal(1, 0, SIGSTOP);
  job.Raise(1, kGroup, WEFT_MISMATCH, 5);
  const int64_t killed_ns = MonotonicNs();
  job.Signal(1, 0, SIGKILL);
  EXPECT_TRUE(
      job.AwaitAll([&](int island) { return job.FindDeath(island, rank).has_value(); }, kSecondNs))
      << job.Describe();
  Print("a killed speaker known everywhere", killed_ns,
        LastNs(job, [&](int island) { return job.FindDeath(island, rank); }));
  EXPECT_EQ(ExpectOneCause(&job, kGroup, kSecondNs), WEFT_MISMATCH);
  Print("what its island had to say settled everywhere", killed_ns,
        LastNs(job, [&](int island) { return job.FindSettled(island, kGroup); }));
  EXPECT_EQ(job.Speaker(1), 1);
  // And again.
  const int64_t again_ns = MonotonicNs();
  job.Signal(1, 1, SIGKILL);
  EXPECT_TRUE(job.AwaitAll(
      [&](int island) { return job.FindDeath(island, job.RankOf(1, 1)).has_value(); }, kSecondNs))
      << job.Describe();
  Print("the next killed speaker known everywhere", again_ns,
        LastNs(job, [&](int island) { return job.FindDeath(island, job.RankOf(1, 1)); }));
  job.Quiet(2 * kSecondNs);
  for (int island = 0; island < 3; ++island) {
    EXPECT_EQ(job.Count(island, Kind::kUnreachable), 0) << job.Describe();
    EXPECT_EQ(job.Connected(island), 3);
  }
}

TEST(IslandLoopback, AStoppedSpeakerIsSpokenForAndNotDead) {
  RealIslands job({.islands = 3, .ranks_per_island = 2, .limit_ns = kSecondNs});
  ASSERT_EQ(job.AwaitConnected(), "");
  uint64_t group = kGroup;
  // For less than the limit, and for more.
  for (const int64_t stopped_ns : {500 * kMs, 3 * kSecondNs}) {
    SCOPED_TRACE(StrCat("stopped for ", stopped_ns / kMs, " ms"));
    job.Signal(1, 0, SIGSTOP);
    const int64_t since_ns = MonotonicNs();
    // Its island must close this, too: only the other process can.
    job.Raise(0, ++group, WEFT_TIMEOUT, 1);
    EXPECT_EQ(ExpectOneCause(&job, group, kSecondNs), WEFT_TIMEOUT);
    Print("a record settled everywhere while a speaker is stopped", since_ns,
          LastNs(job, [&](int island) { return job.FindSettled(island, group); }));
    job.Quiet(std::max<int64_t>(0, since_ns + stopped_ns - MonotonicNs()));
    job.Signal(1, 0, SIGCONT);
    ++group;
    job.Raise(1, group, WEFT_TIMEOUT, 3);
    EXPECT_EQ(ExpectOneCause(&job, group, kSecondNs), WEFT_TIMEOUT);
    job.Quiet(kSecondNs);
  }
  ExpectNoVerdict(job);
  EXPECT_EQ(job.Speaker(1), 0);
}

// Nobody speaks for it, and its kernel still answers: that is no loss before the limit.
TEST(IslandLoopback, AnIslandStoppedForLessThanTheLimitIsNotMissed) {
  RealIslands job({.islands = 3, .ranks_per_island = 2, .limit_ns = 3 * kSecondNs});
  ASSERT_EQ(job.AwaitConnected(), "");
  for (const int64_t stopped_ns : {300 * kMs, 1'500 * kMs}) {
    job.SignalIsland(1, SIGSTOP);
    job.Raise(0, kGroup + static_cast<uint64_t>(stopped_ns), WEFT_TIMEOUT, 1);
    job.Quiet(stopped_ns);
    job.SignalIsland(1, SIGCONT);
    ExpectOneCause(&job, kGroup + static_cast<uint64_t>(stopped_ns), kSecondNs + kSlackNs);
  }
  job.Quiet(3 * kSecondNs);
  ExpectNoVerdict(job);
}

// For longer than the limit, and while another island gets a new speaker, which has to connect with it: its machine takes the connection.
TEST(IslandLoopback, AStoppedIslandIsNotMissedHoweverLong) {
  RealIslands job({.islands = 3, .ranks_per_island = 2, .limit_ns = kSecondNs});
  ASSERT_EQ(job.AwaitConnected(), "");
  job.SignalIsland(1, SIGSTOP);
  job.Quiet(3 * kSecondNs);
  job.Signal(0, 0, SIGKILL);
  job.Quiet(3 * kSecondNs);
  EXPECT_EQ(job.Connected(0), 3) << job.Describe();
  EXPECT_EQ(job.Connected(2), 3) << job.Describe();
  job.SignalIsland(1, SIGCONT);
  EXPECT_TRUE(
      job.AwaitAll([&](int island) { return job.FindDeath(island, job.RankOf(0, 0)).has_value(); },
                   kSecondNs + kSlackNs))
      << job.Describe();
  job.Raise(1, kGroup, WEFT_TIMEOUT, 1);
  EXPECT_EQ(ExpectOneCause(&job, kGroup, kSecondNs + kSlackNs), WEFT_TIMEOUT);
  for (int island = 0; island < 3; ++island)
    EXPECT_EQ(job.Count(island, Kind::kUnreachable), 0) << job.Describe();
}

TEST(IslandLoopback, AnIslandThatIsGoneIsUnreachableAndNobodySaysDead) {
  constexpr int64_t kLimitNs = kSecondNs;
  RealIslands job({.islands = 4, .ranks_per_island = 2, .limit_ns = kLimitNs});
  ASSERT_EQ(job.AwaitConnected(), "");
  // Stopped first, so that none of its processes sees another one end.
  job.SignalIsland(2, SIGSTOP);
  const int64_t killed_ns = MonotonicNs();
  job.SignalIsland(2, SIGKILL);
  const auto missed = [&](int island) {
    return job.Find(island, [](const RealEvent& event) {
      return event.kind == Kind::kUnreachable && event.island == 2;
    });
  };
  EXPECT_TRUE(
      job.AwaitAll([&](int island) { return missed(island).has_value(); }, kLimitNs + kSlackNs))
      << job.Describe();
  Print("a killed island unreachable everywhere, limit 1000 ms", killed_ns, LastNs(job, missed, 2));
  job.Quiet(kSecondNs);
  for (const int island : {0, 1, 3}) {
    EXPECT_EQ(job.Count(island, Kind::kRankDead), 0) << job.Describe();
    EXPECT_EQ(job.Count(island, Kind::kUnreachable), 1) << job.Describe();
  }
}

TEST(IslandLoopback, TwoCausesAtOnceSettleToTheSameOneEverywhere) {
  RealIslands job({.islands = 4, .ranks_per_island = 2});
  ASSERT_EQ(job.AwaitConnected(), "");
  int64_t raised_ns = MonotonicNs();
  job.Raise(3, kGroup, WEFT_TIMEOUT, 2);
  EXPECT_EQ(ExpectOneCause(&job, kGroup, kSecondNs), WEFT_TIMEOUT);
  Print("one record settled everywhere", raised_ns,
        LastNs(job, [&](int island) { return job.FindSettled(island, kGroup); }));
  raised_ns = MonotonicNs();
  job.Raise(0, kGroup + 1, WEFT_ABORTED, 0);
  job.Raise(2, kGroup + 1, WEFT_PEER_LOST, 4);
  EXPECT_EQ(ExpectOneCause(&job, kGroup + 1, kSecondNs), WEFT_PEER_LOST);
  Print("two records settled everywhere", raised_ns,
        LastNs(job, [&](int island) { return job.FindSettled(island, kGroup + 1); }));
  ExpectNoVerdict(job);
}

TEST(IslandLoopback, ABrokenConnectionIsAQuestionAndIsMadeAgain) {
  RealIslands job({.islands = 3, .ranks_per_island = 2});
  ASSERT_EQ(job.AwaitConnected(), "");
  uint64_t group = kGroup;
  for (int round = 0; round < 3; ++round) {
    const uint64_t before = job.Answers(0);
    job.BreakConnections(0);
    EXPECT_TRUE(job.Await([&] { return job.Answers(0) > before; }, kSecondNs)) << job.Describe();
    job.Raise(1, ++group, WEFT_TIMEOUT, 1);
    EXPECT_EQ(ExpectOneCause(&job, group, kSecondNs), WEFT_TIMEOUT);
  }
  job.Quiet(2 * kSecondNs);
  ExpectNoVerdict(job);
  for (int island = 0; island < 3; ++island)
    EXPECT_EQ(job.Connected(island), 3);
}

TEST(IslandLoopback, AfterAKillAllAgreeOnTheSameSet) {
  RealIslands job({.islands = 3, .ranks_per_island = 2});
  ASSERT_EQ(job.AwaitConnected(), "");
  const int dead = job.RankOf(1, 0);
  const int64_t killed_ns = MonotonicNs();
  job.Signal(1, 0, SIGKILL);
  ASSERT_TRUE(
      job.AwaitAll([&](int island) { return job.FindDeath(island, dead).has_value(); }, kSecondNs));
  job.Reconfigure({0, 1, 2}, MonotonicNs() + 20 * kSecondNs);
  const auto agreed = [&](int island) {
    return job.Find(island, [](const RealEvent& event) { return event.kind == Kind::kAgreed; });
  };
  EXPECT_TRUE(job.AwaitAll([&](int island) { return agreed(island).has_value(); }, 10 * kSecondNs))
      << job.Describe();
  Print("from a kill to the next membership everywhere", killed_ns, LastNs(job, agreed));
  for (int island = 0; island < 3; ++island) {
    ASSERT_TRUE(agreed(island).has_value());
    EXPECT_EQ(agreed(island)->epoch, 2u);
    EXPECT_EQ(agreed(island)->ranks, 0b111111u & ~(1u << dead)) << "island " << island;
    EXPECT_EQ(job.Count(island, Kind::kAgreed), 1);
  }
}

// Some process of each island lives on; which ones are killed, and when, the seed says.
void KillAtRandom(uint64_t seed) {
  SCOPED_TRACE(StrCat("WEFT_TEST_SEED=", seed));
  std::mt19937_64 chosen(seed);
  const auto pick = [&](uint64_t bound) {
    return static_cast<int>(chosen() % bound);
  };
  constexpr int kProcesses = 3;
  RealIslands job({.islands = 2 + pick(3), .ranks_per_island = kProcesses});
  ASSERT_EQ(job.AwaitConnected(), "");
  const auto islands = static_cast<uint64_t>(job.islands());
  job.Raise(pick(islands), kGroup, WEFT_TIMEOUT, 0);
  if (pick(2) == 0) job.Raise(pick(islands), kGroup, WEFT_MISMATCH, 1);
  uint64_t living = (uint64_t{1} << job.islands() * kProcesses) - 1;
  std::vector<int> killed;
  for (int island = 0; island < job.islands(); ++island) {
    const int spared = pick(kProcesses);
    for (int process = 0; process < kProcesses; ++process) {
      if (process == spared || pick(2) == 0) continue;
      job.Quiet(pick(10) * kMs);
      job.Signal(island, process, SIGKILL);
      killed.push_back(job.RankOf(island, process));
      living &= ~(uint64_t{1} << killed.back());
    }
  }
  const auto is_dead = [&](int island, int rank) {
    return job.FindDeath(island, rank).has_value();
  };
  EXPECT_TRUE(job.AwaitAll(
      [&](int island) {
        return std::all_of(killed.begin(), killed.end(),
                           [&](int rank) { return is_dead(island, rank); });
      },
      kSecondNs))
      << job.Describe();
  ExpectOneCause(&job, kGroup, kSecondNs);
  std::vector<int> all(static_cast<size_t>(job.islands()));
  std::iota(all.begin(), all.end(), 0);
  job.Reconfigure(all, MonotonicNs() + 20 * kSecondNs);
  const auto agreed = [&](int island) {
    return job.Find(island, [](const RealEvent& event) { return event.kind == Kind::kAgreed; });
  };
  EXPECT_TRUE(job.AwaitAll([&](int island) { return agreed(island).has_value(); }, 10 * kSecondNs))
      << job.Describe();
  for (const int island : all) {
    EXPECT_EQ(job.Count(island, Kind::kUnreachable), 0) << job.Describe();
    if (agreed(island)) {
      EXPECT_EQ(agreed(island)->ranks, living) << job.Describe();
    }
    for (const RealEvent& event : job.Events(island)) {
      if (event.kind != Kind::kRankDead) continue;
      EXPECT_EQ(event.signal, SIGKILL) << job.Describe();
      EXPECT_EQ(std::count(killed.begin(), killed.end(), event.rank), 1) << job.Describe();
    }
  }
}

TEST(IslandLoopback, KillsAtRandomEndInOneMembershipOfThoseWhoLive) {
  const uint64_t first = FirstSeedToTry(1);
  const uint64_t count = AllCasesWanted() ? 200 : 15;
  for (uint64_t seed = first; seed < first + count && !HasFailure(); ++seed)
    KillAtRandom(seed);
  std::printf("kills at random: %llu seeds from %llu on\n", static_cast<unsigned long long>(count),
              static_cast<unsigned long long>(first));
}

TEST(IslandLoopback, IdleAgentsHardlyRun) {
  RealIslands job({.islands = 4, .ranks_per_island = 2, .limit_ns = 3 * kSecondNs});
  ASSERT_EQ(job.AwaitConnected(), "");
  const int64_t idle_ns = AllCasesWanted() ? 10 * kSecondNs : 2 * kSecondNs;
  const auto used = [&](int process) {
    int64_t most_ns = 0;
    for (int island = 0; island < 4; ++island)
      most_ns = std::max(most_ns, job.CpuNs(island, process));
    return most_ns;
  };
  const int64_t speaker_ns = used(0);
  const int64_t other_ns = used(1);
  job.Quiet(idle_ns);
  const auto percent = [&](int64_t ns) {
    return 100.0 * static_cast<double>(ns) / static_cast<double>(idle_ns);
  };
  std::printf("idle for %.0f s: a speaker used %.3f %% of a core, another process %.3f %%\n",
              static_cast<double>(idle_ns) / 1e9, percent(used(0) - speaker_ns),
              percent(used(1) - other_ns));
  // Whoever turned in circles would use all of one.
  EXPECT_LT(percent(used(0) - speaker_ns), 10);
  EXPECT_LT(percent(used(1) - other_ns), 10);
  ExpectNoVerdict(job);
}

TEST(IslandLoopback, NothingIsLeftBehind) {
  const Holdings before = Holdings::Now();
  {
    RealIslands job({.islands = 2, .ranks_per_island = 2});
    EXPECT_EQ(job.AwaitConnected(), "");
  }
  EXPECT_EQ(Holdings::Now().Since(before), "");
}

// Two network namespaces with a cable between them, for this process and its children; gone with them. The caller is in the near one.
class Cable {
 public:
  Cable() : own_(Current()) {
    if (!own_.valid() || unshare(CLONE_NEWNET) != 0) return;
    near_ = Current();
    if (unshare(CLONE_NEWNET) != 0) return;
    far_ = Current();
    const std::string far = StrCat("/proc/", getpid(), "/fd/", far_.get());
    Enter(near_);
    works_ = Ip("link set lo up") &&
             Ip(StrCat("link add near0 type veth peer name far0 netns ", far)) &&
             Set(near_, "near0", 1);
    Enter(far_);
    works_ = works_ && Ip("link set lo up") && Set(far_, "far0", 100);
    Enter(near_);
  }

  ~Cable() {
    if (near_.valid()) Enter(own_);
  }

  bool works() const { return works_; }

  static std::string Address(int number) { return StrCat("10.99.0.", number); }

  void EnterFar() const { Enter(far_); }

  void Plug(bool in) const { EXPECT_TRUE(Ip(StrCat("link set near0 ", in ? "up" : "down"))); }

 private:
  static UniqueFd Current() { return UniqueFd(open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC)); }

  static void Enter(const UniqueFd& space) { EXPECT_EQ(setns(space.get(), CLONE_NEWNET), 0); }

  static bool Ip(const std::string& words) {
    return std::system(StrCat("ip ", words, " >/dev/null 2>&1").c_str()) == 0;
  }

  // Four addresses from `first` on.
  static bool Set(const UniqueFd& space, const std::string& device, int first) {
    Enter(space);
    bool set = true;
    for (int number = first; number < first + 4; ++number)
      set = set && Ip(StrCat("addr add ", Address(number), "/24 dev ", device));
    return set && Ip(StrCat("link set ", device, " up"));
  }

  UniqueFd own_;
  UniqueFd near_;
  UniqueFd far_;
  bool works_ = false;
};

TEST(IslandLoopback, ACutNetworkHasOneSideThatGoesOn) {
  const Cable cable;
  if (!cable.works()) GTEST_SKIP() << "network namespaces cannot be made here";
  constexpr int64_t kLimitNs = kSecondNs;
  RealIslands job({.islands = 3,
                   .ranks_per_island = 2,
                   .limit_ns = kLimitNs,
                   .hosts = {Cable::Address(1), Cable::Address(2), Cable::Address(100)},
                   .enter = [&](int island) {
                     if (island == 2) cable.EnterFar();
                   }});
  ASSERT_EQ(job.AwaitConnected(), "");
  int64_t cut_ns = MonotonicNs();
  cable.Plug(false);
  const auto missed = [&](int island) {
    return job.Find(island, [&](const RealEvent& event) {
      return event.kind == Kind::kUnreachable && event.time_ns > cut_ns;
    });
  };
  EXPECT_TRUE(
      job.AwaitAll([&](int island) { return missed(island).has_value(); }, kLimitNs + kSlackNs))
      << job.Describe();
  Print("a cut network known on both sides, limit 1000 ms", cut_ns, LastNs(job, missed));
  for (const int island : {0, 1}) {
    EXPECT_EQ(job.Count(island, Kind::kUnreachable), 1) << job.Describe();
    EXPECT_EQ(job.Count(island, Kind::kRankDead), 0) << job.Describe();
  }
  job.Reconfigure({0, 1, 2}, MonotonicNs() + 20 * kSecondNs);
  const auto ended = [&](int island) {
    return job.Find(island, [&](const RealEvent& event) {
      return event.kind == (island == 2 ? Kind::kNoQuorum : Kind::kAgreed);
    });
  };
  EXPECT_TRUE(job.AwaitAll([&](int island) { return ended(island).has_value(); }, 10 * kSecondNs))
      << job.Describe();
  for (const int island : {0, 1}) {
    ASSERT_TRUE(ended(island).has_value()) << job.Describe();
    EXPECT_EQ(ended(island)->ranks, 0b001111u);
  }
  EXPECT_EQ(job.Count(2, Kind::kAgreed), 0) << job.Describe();
  const int64_t plugged_ns = MonotonicNs();
  cable.Plug(true);
  const auto left = [&](int island) {
    return job.Find(island, [](const RealEvent& event) { return event.kind == Kind::kLeftBehind; });
  };
  EXPECT_TRUE(job.Await([&] { return left(2).has_value(); }, 10 * kSecondNs)) << job.Describe();
  if (left(2)) {
    EXPECT_EQ(left(2)->epoch, 2u);
    EXPECT_EQ(left(2)->ranks, 0b001111u);
    Print("who was cut off learns that it was left behind", plugged_ns, left(2)->time_ns);
  }
}

// A cut that heals before anybody has agreed to go on without the other side.
TEST(IslandLoopback, AShortCutIsForgotten) {
  const Cable cable;
  if (!cable.works()) GTEST_SKIP() << "network namespaces cannot be made here";
  RealIslands job({.islands = 2,
                   .ranks_per_island = 2,
                   .limit_ns = 3 * kSecondNs,
                   .hosts = {Cable::Address(1), Cable::Address(100)},
                   .enter = [&](int island) {
                     if (island == 1) cable.EnterFar();
                   }});
  ASSERT_EQ(job.AwaitConnected(), "");
  cable.Plug(false);
  job.Raise(1, kGroup, WEFT_TIMEOUT, 0);
  job.Quiet(kSecondNs);
  cable.Plug(true);
  EXPECT_EQ(ExpectOneCause(&job, kGroup, 2 * kSecondNs + kSlackNs), WEFT_TIMEOUT);
  job.Quiet(2 * kSecondNs);
  ExpectNoVerdict(job);
}

}  // namespace
}  // namespace weft::test
