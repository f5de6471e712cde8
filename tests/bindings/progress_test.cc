// What work.h says of works, weft_progress and its descriptor while the hidden thread moves operations.
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "weft/weft.h"

#include "tests/bindings/local_threads.h"
#include "tests/bindings/polling.h"

namespace weft::test::progress_test {
namespace {

class Progress : public testing::Test {
 protected:
  void SetUp() override {
    const weft_group_config_t config = ConfigNamed("progress");
    ASSERT_EQ(weft_group_create_local(2, &config, groups_), WEFT_SUCCESS) << weft_last_error();
  }

  void TearDown() override {
    for (weft_group_t group : groups_)
      EXPECT_EQ(weft_group_destroy(group), WEFT_SUCCESS);
  }

  weft_work_t StartBarrier(int rank) {
    weft_work_t work = nullptr;
    EXPECT_EQ(weft_barrier(groups_[rank], nullptr, &work), WEFT_SUCCESS) << weft_last_error();
    return work;
  }

  weft_group_t groups_[2] = {};
};

TEST_F(Progress, ErrorIsInProgressUntilTheEndAndLeavesTheLastErrorAlone) {
  weft_dtype_size(WEFT_INT8);
  EXPECT_EQ(weft_mem_alloc(0, 0, nullptr), WEFT_INVALID_ARGUMENT);
  const std::string sentence = weft_last_error();
  weft_work_t work = StartBarrier(0);
  EXPECT_EQ(weft_work_error(work), WEFT_IN_PROGRESS);
  EXPECT_EQ(weft_last_error(), sentence);
  EXPECT_EQ(weft_barrier(groups_[1], nullptr, nullptr), WEFT_SUCCESS);
  EXPECT_EQ(weft_work_wait(work, 0), WEFT_SUCCESS);
  EXPECT_EQ(weft_work_error(work), WEFT_SUCCESS);
  EXPECT_EQ(weft_work_free(work), WEFT_SUCCESS);
  weft_work_t aborted = StartBarrier(0);
  EXPECT_EQ(weft_group_abort(groups_[1], "enough"), WEFT_SUCCESS);
  EXPECT_EQ(weft_work_wait(aborted, 0), WEFT_ABORTED);
  EXPECT_EQ(weft_work_error(aborted), WEFT_ABORTED);
  EXPECT_NE(std::string(weft_last_error()).find("enough"), std::string::npos);
  EXPECT_EQ(weft_work_free(aborted), WEFT_SUCCESS);
}

TEST_F(Progress, DescriptorIsReadableFromAnEndToTheNextProgress) {
  int fd = -1;
  ASSERT_EQ(weft_progress_fd(&fd), WEFT_SUCCESS) << weft_last_error();
  int again = -1;
  EXPECT_EQ(weft_progress_fd(&again), WEFT_SUCCESS);
  EXPECT_EQ(fd, again);
  int pending = -1;
  EXPECT_EQ(weft_progress(&pending), WEFT_SUCCESS);
  EXPECT_EQ(pending, 0);
  EXPECT_FALSE(Readable(fd, 0));
  weft_work_t work = StartBarrier(0);
  EXPECT_EQ(weft_progress(&pending), WEFT_SUCCESS);
  EXPECT_EQ(pending, 1);
  EXPECT_FALSE(Readable(fd, 30)) << "nothing has ended, and a thread does the work";
  EXPECT_EQ(weft_barrier(groups_[1], nullptr, nullptr), WEFT_SUCCESS);
  EXPECT_TRUE(Readable(fd, 20'000));
  EXPECT_EQ(weft_work_error(work), WEFT_SUCCESS);
  EXPECT_TRUE(Readable(fd, 0)) << "until weft_progress";
  EXPECT_EQ(weft_progress(&pending), WEFT_SUCCESS);
  EXPECT_EQ(pending, 0);
  EXPECT_FALSE(Readable(fd, 30));
  EXPECT_EQ(RunningTimers(), 0);
  EXPECT_EQ(weft_work_free(work), WEFT_SUCCESS);
}

// The hidden thread ends one rank's operations while this one empties the descriptor.
TEST_F(Progress, NoEndIsLostBetweenTwoLooks) {
  int fd = -1;
  ASSERT_EQ(weft_progress_fd(&fd), WEFT_SUCCESS) << weft_last_error();
  for (int round = 0; round < 2000; ++round) {
    weft_work_t works[] = {StartBarrier(0), StartBarrier(1)};
    for (weft_work_t work : works) {
      while (weft_work_error(work) == WEFT_IN_PROGRESS) {
        ASSERT_TRUE(Readable(fd, 20'000)) << "round " << round;
        ASSERT_EQ(weft_progress(nullptr), WEFT_SUCCESS);
      }
      EXPECT_EQ(weft_work_error(work), WEFT_SUCCESS);
      EXPECT_EQ(weft_work_free(work), WEFT_SUCCESS);
    }
  }
}

// The thread looks seldom then, at whatever moment of the group's queue.
TEST_F(Progress, OperationsEndByThemselvesAlsoAfterManyThatWereWaitedFor) {
  constexpr int kUnderWay = 40;  // more than ranks announce ahead
  for (int round = 0; round < 20; ++round) {
    OnThreads(2, [&](int rank) {
      for (int i = 0; i < 100; ++i) {
        weft_work_t work = StartBarrier(rank);
        EXPECT_EQ(weft_work_wait(work, 0), WEFT_SUCCESS);
        EXPECT_EQ(weft_work_free(work), WEFT_SUCCESS);
      }
      std::vector<weft_work_t> works;
      for (int i = 0; i < kUnderWay; ++i)
        works.push_back(StartBarrier(rank));
      for (weft_work_t work : works) {
        while (weft_work_error(work) == WEFT_IN_PROGRESS)
          std::this_thread::yield();
        EXPECT_EQ(weft_work_error(work), WEFT_SUCCESS);
        EXPECT_EQ(weft_work_free(work), WEFT_SUCCESS);
      }
    });
  }
}

// One rank calls again what it has called before, with other buffers and ways to wait, while the other one blocks.
TEST_F(Progress, RepeatedCallsUseTheBuffersThatTheyAreGiven) {
  OnThreads(2, [&](int rank) {
    std::vector<float> data(64);
    for (int i = 0; i < 300; ++i) {
      float* const at = data.data() + i % 32;
      at[0] = static_cast<float>(i + rank);
      weft_work_t work = nullptr;
      EXPECT_EQ(weft_all_reduce(at, at, 1, WEFT_FLOAT32, WEFT_SUM, groups_[rank], nullptr,
                                rank == 0 || i % 3 == 0 ? &work : nullptr),
                WEFT_SUCCESS)
          << weft_last_error();
      for (int done = 0; work != nullptr && i % 2 == 0 && done == 0;)
        EXPECT_EQ(weft_work_test(work, &done), WEFT_SUCCESS);
      if (work != nullptr) {
        EXPECT_EQ(weft_work_wait(work, 0), WEFT_SUCCESS);
      }
      EXPECT_EQ(at[0], static_cast<float>(2 * i + 1)) << "call " << i;
      EXPECT_EQ(weft_work_free(work), WEFT_SUCCESS);
    }
    weft_work_t none = nullptr;
    EXPECT_EQ(weft_all_reduce(nullptr, data.data(), 1, WEFT_FLOAT32, WEFT_SUM, groups_[rank],
                              nullptr, &none),
              WEFT_INVALID_ARGUMENT);
    EXPECT_EQ(none, nullptr);
  });
}

TEST_F(Progress, ManyThreadsMayCallIt) {
  constexpr int kRounds = 200;
  std::atomic<int> ended{0};
  std::atomic<bool> stop{false};
  std::vector<std::thread> callers;
  for (int i = 0; i < 3; ++i) {
    callers.emplace_back([&] {
      while (!stop.load())
        EXPECT_EQ(weft_progress(nullptr), WEFT_SUCCESS);
    });
  }
  OnThreads(2, [&](int rank) {
    for (int i = 0; i < kRounds; ++i) {
      weft_work_t work = StartBarrier(rank);
      const auto count = [](weft_result_t, void* user) {
        static_cast<std::atomic<int>*>(user)->fetch_add(1);
      };
      EXPECT_EQ(weft_work_on_complete(work, count, &ended), WEFT_SUCCESS);
      EXPECT_EQ(weft_work_wait(work, 0), WEFT_SUCCESS);
      EXPECT_EQ(weft_work_free(work), WEFT_SUCCESS);
    }
  });
  stop.store(true);
  for (std::thread& caller : callers)
    caller.join();
  // A callback may run a little after its work has been seen to end.
  for (int i = 0; i < 2000 && ended.load() < 2 * kRounds; ++i)
    usleep(10'000);
  EXPECT_EQ(ended.load(), 2 * kRounds);
}

weft_result_t OneAsynchronousBarrier() {
  weft_group_t solo = nullptr;
  weft_result_t result = weft_group_create_local(1, nullptr, &solo);
  if (result != WEFT_SUCCESS) return result;
  weft_work_t work = nullptr;
  result = weft_barrier(solo, nullptr, &work);
  if (result == WEFT_SUCCESS) result = weft_work_wait(work, 0);
  (void)weft_work_free(work);
  (void)weft_group_destroy(solo);
  return result;
}

TEST(ProgressDescriptor, AForkedChildHasItsOwn) {
  int parents = -1;
  ASSERT_EQ(weft_progress_fd(&parents), WEFT_SUCCESS) << weft_last_error();
  ASSERT_EQ(weft_progress(nullptr), WEFT_SUCCESS);
  InAChild([parents]() -> int {
    const int before = DescriptorsOf("[eventpoll]");
    if (OneAsynchronousBarrier() != WEFT_SUCCESS) return 1;
    if (DescriptorsOf("[eventpoll]") != before) return 2;  // nobody has asked yet
    int own = -1;
    if (weft_progress_fd(&own) != WEFT_SUCCESS || own == parents) return 3;
    if (DescriptorsOf("[eventpoll]") != before + 1) return 4;
    if (!Readable(own, 0)) return 5;  // the end before the descriptor was made
    int pending = -1;
    if (weft_progress(&pending) != WEFT_SUCCESS || pending != 0) return 6;
    if (Readable(own, 0)) return 7;
    if (OneAsynchronousBarrier() != WEFT_SUCCESS || !Readable(own, 20'000)) return 8;
    return 0;
  });
  EXPECT_FALSE(Readable(parents, 0)) << "told of the child's ends";
}

TEST(ProgressDescriptor, AChildsGroupsHaveAThreadOfTheirOwn) {
  ASSERT_EQ(OneAsynchronousBarrier(), WEFT_SUCCESS);
  InAChild([]() -> int {
    weft_group_t groups[2] = {};
    if (weft_group_create_local(2, nullptr, groups) != WEFT_SUCCESS) return 1;
    weft_work_t work = nullptr;
    if (weft_barrier(groups[0], nullptr, &work) != WEFT_SUCCESS) return 2;
    if (weft_barrier(groups[1], nullptr, nullptr) != WEFT_SUCCESS) return 3;
    for (int i = 0; i < 2000 && weft_work_error(work) == WEFT_IN_PROGRESS; ++i)
      usleep(10'000);
    if (weft_work_error(work) != WEFT_SUCCESS) return 4;
    (void)weft_work_free(work);
    for (weft_group_t group : groups) {
      if (weft_group_destroy(group) != WEFT_SUCCESS) return 5;
    }
    return 0;
  });
}

}  // namespace
}  // namespace weft::test::progress_test
