// What groups leave of private memory: nothing. Links tests/shard/live_malloc, which counts what malloc gave out.
#include <string>

#include <gtest/gtest.h>

#include "base/wait.h"
#include "comm/node/deferred_reclamation.h"
#include "comm/node/heap.h"
#include "comm/node/make_group.h"
#include "directory_store.h"
#include "tests/shard/live_malloc.h"
#include "tests/support/forked_ranks.h"

namespace weft::test {
namespace {

constexpr int kGroups = 20;

std::string AloneAndGone() {
  const auto groups = CreateLocalGroups(1, {.name = "m"});
  if (!groups.ok()) return std::string(groups.status().message());
  (*groups)[0]->Close();
  return "";
}

TEST(GroupMemory, AGroupOfOneLeavesNothing) {
  if (!CountsMalloc()) GTEST_SKIP() << "a sanitizer counts";
  ASSERT_EQ(AloneAndGone(), "");  // what a process has once
  const int64_t before = LiveMallocBytes();
  for (int i = 0; i < kGroups; ++i)
    ASSERT_EQ(AloneAndGone(), "");
  EXPECT_EQ(LiveMallocBytes(), before);
}

std::string TogetherAndGone(const std::filesystem::path& directory, int rank, int number) {
  const std::filesystem::path folder = directory / std::to_string(number);
  std::filesystem::create_directories(folder);
  DirectoryStore store(folder);
  const auto group = MakeNodeGroup(&store, rank, 2, {.name = "m", .timeout_ns = 60'000'000'000});
  if (!group.ok()) return std::string(group.status().message());
  (*group)->Close();
  return "";
}

// Rank 0 keeps what its peer may still read, so the last group may be there for a moment.
int64_t SettledBytes() {
  const int64_t deadline_ns = MonotonicNs() + 20'000'000'000;
  while (ProcessHeap().live_bytes() != 0 && MonotonicNs() < deadline_ns)
    ReclaimDeferred();
  return LiveMallocBytes();
}

TEST(GroupMemory, GroupsOfTwoProcessesLeaveNothing) {
  if (!CountsMalloc()) GTEST_SKIP() << "a sanitizer counts";
  const TemporaryDirectory directory;
  const auto ends = RunForkedRanks(2, 100, [&](int rank) -> std::string {
    int64_t before = 0;
    for (int i = 0; i < kGroups; ++i) {
      std::string problem = TogetherAndGone(directory.path(), rank, i);
      if (!problem.empty()) return problem;
      if (i == 1) before = SettledBytes();
    }
    const int64_t more = SettledBytes() - before;
    return more == 0 ? "" : std::to_string(more) + " bytes more than after two groups";
  });
  for (const RankEnd& end : ends)
    EXPECT_EQ(end.Problem(), "");
}

}  // namespace
}  // namespace weft::test
