// weft_group_reconfigure and weft_group_stats of a group over fake nodes, whose ranks are processes, one of which is killed.
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <string>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "weft/weft.h"

#include "tests/bindings/local_threads.h"
#include "tests/support/forked_ranks.h"
#include "tests/support/shared_value.h"

namespace weft::test::span_reconfigure_calls_test {
namespace {

constexpr int64_t kTimeoutNs = 30'000'000'000;
constexpr int kSize = 4;
constexpr int kVictim = 2;

struct Met {
  std::atomic<int> ranks{0};
};

// "" if the sum over the group's ranks is that of `ranks` ones.
std::string ExpectSum(weft_group_t group, int ranks) {
  float sum = 1;
  if (weft_all_reduce(&sum, &sum, 1, WEFT_FLOAT32, WEFT_SUM, group, nullptr, nullptr) !=
      WEFT_SUCCESS) {
    return weft_last_error();
  }
  return sum == static_cast<float>(ranks) ? "" : "another sum";
}

std::string GoOnWithoutOne(weft_group_t group, int rank, Met* met) {
  std::string problem = ExpectSum(group, kSize);
  if (!problem.empty()) return problem;
  met->ranks.fetch_add(1);
  for (int i = 0; met->ranks.load() < kSize && i < 20'000; ++i)
    usleep(1'000);
  if (rank == kVictim) raise(SIGKILL);
  while ((problem = ExpectSum(group, kSize)).empty()) {
  }
  if (weft_group_reconfigure(group, nullptr, 0, nullptr) != WEFT_SUCCESS) return weft_last_error();
  int size = 0;
  int own = -1;
  uint32_t epoch = 0;
  if (weft_group_size(group, &size) != WEFT_SUCCESS ||
      weft_group_rank(group, &own) != WEFT_SUCCESS ||
      weft_group_epoch(group, &epoch) != WEFT_SUCCESS) {
    return weft_last_error();
  }
  if (size != kSize - 1 || own != rank - (rank > kVictim ? 1 : 0) || epoch != 2)
    return "rank " + std::to_string(own) + " of " + std::to_string(size);
  for (int i = 0; i < 3; ++i) {
    problem = ExpectSum(group, kSize - 1);
    if (!problem.empty()) return problem;
  }
  weft_group_stats_t stats = {};
  stats.struct_size = sizeof(stats);
  if (weft_group_stats(group, &stats) != WEFT_SUCCESS) return weft_last_error();
  // And the vote on the list.
  if (stats.collectives != 4 || stats.in_bytes < 3 * sizeof(float) || stats.failures != 0)
    return "it counts " + std::to_string(stats.collectives) + " collectives, " +
           std::to_string(stats.in_bytes) + " bytes";
  return weft_group_destroy(group) == WEFT_SUCCESS ? "" : weft_last_error();
}

TEST(SpanReconfigureCalls, TheHandleIsThatOfTheRanksThatLive) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const SharedValue<Met> met;
  const std::vector<RankEnd> ranks = RunForkedRanks(kSize, 60, [&](int rank) -> std::string {
    setenv("WEFT_FAKE_NODES", "2", 1);
    weft_unique_id_t id;
    if (rank == 0) {
      if (weft_unique_id_create(&id) != WEFT_SUCCESS) return weft_last_error();
      for (int other = 1; other < kSize; ++other) {
        if (write(ends[1], &id, sizeof(id)) != sizeof(id)) return "the pipe";
      }
    } else if (read(ends[0], &id, sizeof(id)) != sizeof(id)) {
      return "the pipe";
    }
    const weft_group_config_t config = ConfigNamed("made-anew", kTimeoutNs);
    weft_group_t group = nullptr;
    if (weft_group_create_from_id(&id, kSize, rank, &config, &group) != WEFT_SUCCESS)
      return weft_last_error();
    return GoOnWithoutOne(group, rank, met.operator->());
  });
  for (int rank = 0; rank < kSize; ++rank) {
    const RankEnd& end = ranks[static_cast<size_t>(rank)];
    if (rank == kVictim) {
      EXPECT_TRUE(WIFSIGNALED(end.wait_status));
    } else {
      EXPECT_EQ(end.Problem(), "") << "rank " << rank;
    }
  }
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace weft::test::span_reconfigure_calls_test
