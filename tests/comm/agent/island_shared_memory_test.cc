// An island's memory in pages that processes share: what writers leave that are killed or stopped in the middle of a write, and what
// readers see meanwhile.
#include "comm/agent/island_shared_memory.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/pages.h"
#include "base/text.h"
#include "base/wait.h"
#include "comm/agent/island_relay.h"
#include "tests/support/shared_value.h"

namespace weft::test::island_shared_memory_test {
namespace {

constexpr int kProcesses = 3;

IslandMap MakeMap(int islands, int ranks_per_island) {
  std::vector<Island> list(static_cast<size_t>(islands));
  int rank = 0;
  for (Island& island : list) {
    for (int i = 0; i < ranks_per_island; ++i)
      island.processes.push_back({.world_rank = rank++});
  }
  return {std::move(list), rank, 0};
}

GroupVerdict VerdictOf(const IslandMap& map, uint64_t group, size_t sentence_bytes) {
  GroupVerdict verdict;
  verdict.record.group_id = group;
  verdict.record.result = WEFT_TIMEOUT;
  verdict.record.sentence = std::string(sentence_bytes, 'x');
  verdict.excluded = IslandNumberSet(map.island_count());
  verdict.closed = IslandNumberSet::All(map.island_count());
  return verdict;
}

// Every number in it follows from one.
IslandState StateOf(const IslandMap& map, uint64_t number) {
  IslandState state;
  state.members = IslandNumberSet::All(map.rank_count());
  state.promised = number;
  state.accepted = number + 1;
  state.accepted_ranks = IslandNumberSet(map.rank_count());
  state.accepted_ranks.Add(static_cast<int>(number % static_cast<uint64_t>(map.rank_count())));
  for (uint64_t i = 0; i < number % kProcesses; ++i)
    state.deaths.push_back({.world_rank = static_cast<int32_t>(i), .promised = number});
  return state;
}

std::string WrongWith(const IslandMap& map, const IslandState& state) {
  if (state.promised == 0) return "";
  const IslandState expected = StateOf(map, state.promised);
  if (state.accepted != expected.accepted) return "accepted is of another write";
  if (state.accepted_ranks != expected.accepted_ranks) return "ranks are of another write";
  if (state.deaths.size() != expected.deaths.size()) return "deaths are of another write";
  for (const RankDeath& death : state.deaths) {
    if (death.promised != state.promised) return "a death is of another write";
  }
  return "";
}

class SharedIsland {
 public:
  SharedIsland(int islands, int ranks_per_island)
      : map(MakeMap(islands, ranks_per_island)),
        pages_(*Pages::Create("weft-island-test", IslandSharedMemory::BytesFor(map, 0),
                              Backing::kAllocated)) {}

  IslandSharedMemory Of(int process) const { return {map, 0, process, pages_.data()}; }

  const IslandMap map;

 private:
  const Pages pages_;
};

TEST(IslandSharedMemory, BeginsWithAllRanksInTheFirstEpoch) {
  const SharedIsland island(2, kProcesses);
  IslandSharedMemory memory = island.Of(0);
  const IslandState state = memory.Read();
  EXPECT_EQ(state.epoch, 1u);
  EXPECT_EQ(state.members, IslandNumberSet::All(2 * kProcesses));
  EXPECT_EQ(state.promised, 0u);
  EXPECT_TRUE(memory.ReadVerdicts().empty());
}

TEST(IslandSharedMemory, WritesOfATermThatHasPassedOnFailAndLeaveNothing) {
  const SharedIsland island(2, kProcesses);
  IslandSharedMemory first = island.Of(0);
  IslandSharedMemory second = island.Of(1);
  const uint64_t old_term = first.Take();
  ASSERT_TRUE(first.Write(old_term, StateOf(island.map, 4)));
  const uint64_t term = second.Take();
  EXPECT_GT(term, old_term);
  EXPECT_FALSE(first.Holds(old_term));
  EXPECT_TRUE(second.Holds(term));
  EXPECT_FALSE(first.Write(old_term, StateOf(island.map, 5)));
  EXPECT_FALSE(first.WriteVerdict(old_term, VerdictOf(island.map, 1, 10)));
  EXPECT_EQ(second.Read().promised, 4u);
  EXPECT_TRUE(second.ReadVerdicts().empty());
  ASSERT_TRUE(second.Write(term, StateOf(island.map, 6)));
  EXPECT_EQ(first.Read().promised, 6u);
  EXPECT_EQ(WrongWith(island.map, first.Read()), "");
}

TEST(IslandSharedMemory, KeepsHowOtherIslandsHaveEnded) {
  const SharedIsland island(300, kProcesses);
  IslandSharedMemory memory = island.Of(0);
  const uint64_t term = memory.Take();
  IslandState state = StateOf(island.map, 5);
  for (int other = 1; other < 300; ++other) {
    state.elsewhere.push_back({.island = other,
                               .left = static_cast<uint64_t>(other % 8),
                               .promised = static_cast<uint64_t>(other) << 40,
                               .accepted = other % 3 == 0});
  }
  ASSERT_TRUE(memory.Write(term, state));
  ASSERT_TRUE(memory.WriteVerdict(term, VerdictOf(island.map, 1, 10)));
  const IslandState read = island.Of(1).Read();
  EXPECT_EQ(WrongWith(island.map, read), "");
  ASSERT_EQ(read.elsewhere.size(), state.elsewhere.size());
  for (size_t i = 0; i < state.elsewhere.size(); ++i) {
    const EndedIsland& expected = state.elsewhere[i];
    const EndedIsland& found = read.elsewhere[i];
    EXPECT_EQ(found.island, expected.island);
    EXPECT_EQ(found.left, expected.left);
    EXPECT_EQ(found.promised, expected.promised);
    EXPECT_EQ(found.accepted, expected.accepted);
  }
}

TEST(IslandSharedMemory, KeepsTheLatestVerdictsUntilTheEpochEnds) {
  const SharedIsland island(3, 1);
  IslandSharedMemory memory = island.Of(0);
  const uint64_t term = memory.Take();
  IslandState state = memory.Read();
  state.promised = 7;
  ASSERT_TRUE(memory.Write(term, state));
  const size_t count = IslandRelay::kGroupsMax;
  for (uint64_t group = 0; group < count + 5; ++group)
    ASSERT_TRUE(memory.WriteVerdict(term, VerdictOf(island.map, group, kFailureSentenceMax)));
  GroupVerdict again = VerdictOf(island.map, 5, 3);
  again.settled = true;
  ASSERT_TRUE(memory.WriteVerdict(term, again));
  const std::vector<GroupVerdict> verdicts = memory.ReadVerdicts();
  ASSERT_EQ(verdicts.size(), count);
  EXPECT_EQ(verdicts.front().record.group_id, 6u);
  EXPECT_EQ(verdicts.back().record.group_id, 5u);
  EXPECT_TRUE(verdicts.back().settled);
  EXPECT_EQ(verdicts.back().record.sentence, "xxx");
  EXPECT_EQ(memory.Read().promised, 7u);
  state.epoch = 2;
  ASSERT_TRUE(memory.Write(term, state));
  EXPECT_TRUE(memory.ReadVerdicts().empty());
}

TEST(IslandSharedMemory, HoldsTheLargestJobs) {
  const SharedIsland island(IslandTopology::kIslandsMax, 64);
  IslandSharedMemory memory = island.Of(63);
  const uint64_t term = memory.Take();
  IslandState state = StateOf(island.map, 2);
  state.deaths.assign(64, RankDeath{.world_rank = 3});
  state.elsewhere.assign(IslandTopology::kIslandsMax, EndedIsland{.island = 1});
  ASSERT_TRUE(memory.Write(term, state));
  for (uint64_t group = 0; group < IslandRelay::kGroupsMax; ++group)
    ASSERT_TRUE(memory.WriteVerdict(term, VerdictOf(island.map, group, kFailureSentenceMax)));
  IslandSharedMemory other = island.Of(0);
  EXPECT_EQ(other.Read().deaths.size(), 64u);
  EXPECT_EQ(other.ReadVerdicts().size(), IslandRelay::kGroupsMax);
}

struct Progress {
  std::atomic<uint64_t> written[kProcesses] = {};
};

// Each takes the memory, writes until it has lost it, and takes it again. All are killed and stopped at any point meanwhile.
[[noreturn]] void WriteForever(const SharedIsland& island, int process, Progress* progress) {
  IslandSharedMemory memory = island.Of(process);
  while (true) {
    const uint64_t term = memory.Take();
    // A promise never goes back.
    uint64_t number = memory.Read().promised;
    if (!WrongWith(island.map, memory.Read()).empty()) _exit(3);
    while (memory.Write(term, StateOf(island.map, ++number))) {
      progress->written[process].store(number);
      if (number % 50 == 0) break;
    }
  }
}

TEST(IslandSharedMemory, WritersMayBeKilledAndStoppedAnywhere) {
  const SharedIsland island(4, kProcesses);
  const SharedValue<Progress> progress;
  pid_t pids[kProcesses] = {};
  const auto start = [&](int process) {
    pids[process] = fork();
    if (pids[process] == 0) WriteForever(island, process, progress.operator->());
  };
  for (int process = 0; process < kProcesses; ++process)
    start(process);
  IslandSharedMemory reader = island.Of(0);
  uint64_t seen = 0;
  std::string wrong;
  for (int round = 0; round < 300 && wrong.empty(); ++round) {
    const int process = round % kProcesses;
    const bool kills = round % 2 == 0;
    kill(pids[process], kills ? SIGKILL : SIGSTOP);
    if (kills) waitpid(pids[process], nullptr, 0);
    // The others go on.
    const uint64_t before = reader.Read().promised;
    const int64_t until_ns = MonotonicNs() + 20'000'000'000;
    while (reader.Read().promised < before + 20 && MonotonicNs() < until_ns) {
      const IslandState state = reader.Read();
      wrong = WrongWith(island.map, state);
      if (state.promised < seen) wrong = "a write was undone";
      seen = std::max(seen, state.promised);
      if (!wrong.empty()) break;
    }
    if (MonotonicNs() >= until_ns) wrong = "the others wait for one that is stopped or dead";
    for (const auto& written : progress->written) {
      // What a writer was told is written stays so.
      if (const uint64_t number = written.load(); reader.Read().promised < number)
        wrong = StrCat("a write was lost: ", number);
    }
    if (kills)
      start(process);
    else
      kill(pids[process], SIGCONT);
  }
  for (const pid_t pid : pids) {
    kill(pid, SIGKILL);
    int status = 0;
    waitpid(pid, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status)) << "a writer has read what nobody wrote";
  }
  EXPECT_EQ(wrong, "");
}

}  // namespace
}  // namespace weft::test::island_shared_memory_test
