// The numbers of weft_group_stats, against what was called.
#include <atomic>
#include <cstddef>
#include <cstring>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "weft/weft.h"

#include "tests/bindings/local_threads.h"

namespace weft::test::group_stats_test {
namespace {

weft_group_stats_t StatsOf(weft_group_t group) {
  weft_group_stats_t stats;
  std::memset(&stats, 0x5a, sizeof(stats));
  stats.struct_size = sizeof(stats);
  EXPECT_EQ(weft_group_stats(group, &stats), WEFT_SUCCESS) << weft_last_error();
  return stats;
}

class GroupStats : public testing::Test {
 protected:
  void SetUp() override {
    const weft_group_config_t config = ConfigNamed("stats");
    ASSERT_EQ(weft_group_create_local(2, &config, groups_), WEFT_SUCCESS) << weft_last_error();
  }

  void TearDown() override {
    for (weft_group_t group : groups_)
      EXPECT_EQ(weft_group_destroy(group), WEFT_SUCCESS);
  }

  weft_group_t groups_[2] = {};
};

TEST_F(GroupStats, OfANewGroupAreZeroButForItsMemory) {
  for (const int rank : {0, 1}) {
    const weft_group_stats_t stats = StatsOf(groups_[rank]);
    EXPECT_EQ(stats.collectives, 0u);
    EXPECT_EQ(stats.messages, 0u);
    EXPECT_EQ(stats.failures, 0u);
    EXPECT_EQ(stats.in_bytes, 0u);
    EXPECT_EQ(stats.out_bytes, 0u);
    EXPECT_EQ(stats.pending, 0u);
    EXPECT_EQ(stats.wait_ns, 0);
    EXPECT_EQ(stats.shared_bytes > 0, rank == 0) << "the segment is in rank 0's heap";
    EXPECT_GT(stats.private_bytes, 0u);
    EXPECT_EQ(stats.node_messages, 0u);
    EXPECT_EQ(stats.net_bytes, 0u);
  }
}

TEST_F(GroupStats, CountOperationsAndTheBytesOfTheCallersBuffers) {
  OnThreads(2, [&](int rank) {
    weft_group_t group = groups_[rank];
    std::vector<float> in(200'000, 1.0f);
    std::vector<float> out(200'000);
    const auto all_reduce = [&](size_t count) {
      EXPECT_EQ(weft_all_reduce(in.data(), out.data(), count, WEFT_FLOAT32, WEFT_SUM, group,
                                nullptr, nullptr),
                WEFT_SUCCESS);
    };
    all_reduce(10);  // 40 in, 40 out
    EXPECT_EQ(weft_barrier(group, nullptr, nullptr), WEFT_SUCCESS);
    EXPECT_EQ(weft_broadcast(in.data(), out.data(), 5, WEFT_FLOAT64, 1, group, nullptr, nullptr),
              WEFT_SUCCESS);  // 40 in on rank 1, 40 out
    EXPECT_EQ(
        weft_reduce(in.data(), out.data(), 3, WEFT_FLOAT32, WEFT_MAX, 0, group, nullptr, nullptr),
        WEFT_SUCCESS);  // 12 in, 12 out on rank 0
    EXPECT_EQ(weft_all_gather(in.data(), out.data(), 7, WEFT_UINT8, group, nullptr, nullptr),
              WEFT_SUCCESS);  // 7 in, 14 out
    const uint64_t in_bytes = 40 + (rank == 1 ? 40 : 0) + 12 + 7;
    const uint64_t out_bytes = 40 + 40 + (rank == 0 ? 12 : 0) + 14;
    const weft_group_stats_t small = StatsOf(group);
    EXPECT_EQ(small.collectives, 5u);
    EXPECT_EQ(small.in_bytes, in_bytes);
    EXPECT_EQ(small.out_bytes, out_bytes);
    all_reduce(200'000);
    const weft_group_stats_t large = StatsOf(group);
    EXPECT_EQ(large.in_bytes, in_bytes + 800'000);
    EXPECT_EQ(large.pending, 0u);
    EXPECT_EQ(large.failures, 0u);
    EXPECT_GE(large.shared_bytes, small.shared_bytes + (256 << 10)) << "it has staging now";
    all_reduce(200'000);
    EXPECT_EQ(StatsOf(group).shared_bytes, large.shared_bytes);
  });
}

TEST_F(GroupStats, TellWhatIsPendingAndWhatFailed) {
  std::vector<weft_work_t> works(3);
  for (weft_work_t& work : works)
    ASSERT_EQ(weft_barrier(groups_[0], nullptr, &work), WEFT_SUCCESS);
  EXPECT_EQ(StatsOf(groups_[0]).pending, 3u);
  EXPECT_EQ(weft_barrier(groups_[1], nullptr, nullptr), WEFT_SUCCESS);
  EXPECT_EQ(weft_work_wait(works[0], 0), WEFT_SUCCESS);
  EXPECT_EQ(StatsOf(groups_[0]).collectives, 1u);
  EXPECT_EQ(StatsOf(groups_[0]).pending, 2u);
  EXPECT_EQ(weft_group_abort(groups_[1], "enough"), WEFT_SUCCESS);
  for (weft_work_t work : works) {
    (void)weft_work_wait(work, 0);
    EXPECT_EQ(weft_work_free(work), WEFT_SUCCESS);
  }
  const weft_group_stats_t stats = StatsOf(groups_[0]);
  EXPECT_EQ(stats.collectives, 3u);
  EXPECT_EQ(stats.failures, 2u);
  EXPECT_EQ(stats.pending, 0u);
  EXPECT_EQ(weft_barrier(groups_[0], nullptr, nullptr), WEFT_ABORTED);
  EXPECT_EQ(StatsOf(groups_[0]).collectives, 3u) << "what was refused was not an operation";
}

TEST_F(GroupStats, CountTheTimeAsleepForPeers) {
  std::thread late([&] {
    usleep(100'000);
    EXPECT_EQ(weft_barrier(groups_[1], nullptr, nullptr), WEFT_SUCCESS);
  });
  EXPECT_EQ(weft_barrier(groups_[0], nullptr, nullptr), WEFT_SUCCESS);
  late.join();
  const int64_t blocking_ns = StatsOf(groups_[0]).wait_ns;
  EXPECT_GT(blocking_ns, 0);
  weft_work_t work = nullptr;
  EXPECT_EQ(weft_barrier(groups_[0], nullptr, &work), WEFT_SUCCESS);
  EXPECT_EQ(weft_work_wait(work, 30'000'000), WEFT_IN_PROGRESS);
  EXPECT_GT(StatsOf(groups_[0]).wait_ns, blocking_ns);
  EXPECT_EQ(weft_barrier(groups_[1], nullptr, nullptr), WEFT_SUCCESS);
  EXPECT_EQ(weft_work_wait(work, 0), WEFT_SUCCESS);
  EXPECT_EQ(weft_work_free(work), WEFT_SUCCESS);
}

TEST_F(GroupStats, MayBeReadWhileOperationsRun) {
  std::atomic<bool> stop{false};
  std::thread reader([&] {
    uint64_t last = 0;
    while (!stop.load()) {
      const weft_group_stats_t stats = StatsOf(groups_[0]);
      EXPECT_GE(stats.collectives, last);
      EXPECT_LE(stats.pending, 1u);
      last = stats.collectives;
    }
  });
  OnThreads(2, [&](int rank) {
    for (int i = 0; i < 2000; ++i)
      ASSERT_EQ(weft_barrier(groups_[rank], nullptr, nullptr), WEFT_SUCCESS);
  });
  stop.store(true);
  reader.join();
  EXPECT_EQ(StatsOf(groups_[0]).collectives, 2000u);
}

// A program built against an older header has a shorter struct.
TEST_F(GroupStats, AShorterStructGetsItsPart) {
  OnThreads(
      2, [&](int rank) { EXPECT_EQ(weft_barrier(groups_[rank], nullptr, nullptr), WEFT_SUCCESS); });
  weft_group_stats_t stats;
  std::memset(&stats, 0x5a, sizeof(stats));
  stats.struct_size = offsetof(weft_group_stats_t, messages);
  EXPECT_EQ(weft_group_stats(groups_[0], &stats), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(stats.struct_size, offsetof(weft_group_stats_t, messages));
  EXPECT_EQ(stats.collectives, 1u);
  EXPECT_EQ(stats.messages, 0x5a5a5a5a5a5a5a5aU);
}

}  // namespace
}  // namespace weft::test::group_stats_test
