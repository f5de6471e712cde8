// The same with WEFT_PROGRESS=caller: nothing moves but by weft_progress, test and wait, and the
// descriptor ticks while there is something to move.
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <stdlib.h>

#include "weft/weft.h"

#include "tests/bindings/local_threads.h"
#include "tests/bindings/polling.h"

namespace weft::test {
namespace {

// Before weft reads its options.
const int kSet = setenv("WEFT_PROGRESS", "caller", 1);

class CallerProgress : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(kSet, 0);
    const weft_group_config_t config = ConfigNamed("caller");
    for (auto& pair : pairs_)
      ASSERT_EQ(weft_group_create_local(2, &config, pair), WEFT_SUCCESS) << weft_last_error();
  }

  void TearDown() override {
    for (auto& pair : pairs_) {
      for (weft_group_t group : pair)
        EXPECT_EQ(weft_group_destroy(group), WEFT_SUCCESS);
    }
    int pending = -1;
    EXPECT_EQ(weft_progress(&pending), WEFT_SUCCESS);
    EXPECT_EQ(pending, 0);
    EXPECT_EQ(RunningTimers(), 0);
  }

  weft_work_t StartBarrier(weft_group_t group, int priority = 0) {
    weft_call_t call = {};
    call.struct_size = sizeof(call);
    call.priority = priority;
    weft_work_t work = nullptr;
    EXPECT_EQ(weft_barrier(group, &call, &work), WEFT_SUCCESS) << weft_last_error();
    return work;
  }

  static int Threads() {
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
      (void)entry;
      ++count;
    }
    return count;
  }

  weft_group_t pairs_[3][2] = {};
};

TEST_F(CallerProgress, StartsNoThreadAndMakesNoDescriptorUnasked) {
  const int threads = Threads();
  const int timers = DescriptorsOf("[timerfd]");
  weft_work_t work = StartBarrier(pairs_[0][0]);
  EXPECT_EQ(Threads(), threads);
  EXPECT_EQ(DescriptorsOf("[timerfd]"), timers);
  EXPECT_EQ(weft_barrier(pairs_[0][1], nullptr, nullptr), WEFT_SUCCESS);
  EXPECT_EQ(weft_work_error(work), WEFT_IN_PROGRESS) << "nobody has moved it";
  int pending = -1;
  EXPECT_EQ(weft_progress(&pending), WEFT_SUCCESS);
  EXPECT_EQ(pending, 0);
  EXPECT_EQ(weft_work_error(work), WEFT_SUCCESS);
  EXPECT_EQ(weft_work_free(work), WEFT_SUCCESS);
}

TEST_F(CallerProgress, DescriptorTicksOnlyWhileOperationsArePending) {
  weft_work_t work = StartBarrier(pairs_[0][0]);
  int fd = -1;
  ASSERT_EQ(weft_progress_fd(&fd), WEFT_SUCCESS) << weft_last_error();
  for (int tick = 0; tick < 3; ++tick) {
    EXPECT_TRUE(Readable(fd, 20'000));
    int pending = -1;
    EXPECT_EQ(weft_progress(&pending), WEFT_SUCCESS);
    EXPECT_EQ(pending, 1);
  }
  EXPECT_EQ(RunningTimers(), 1);
  EXPECT_EQ(weft_barrier(pairs_[0][1], nullptr, nullptr), WEFT_SUCCESS);
  EXPECT_TRUE(PollUntil([&] { return weft_work_error(work) == WEFT_SUCCESS; }));
  EXPECT_EQ(weft_progress(nullptr), WEFT_SUCCESS);
  EXPECT_EQ(RunningTimers(), 0);
  EXPECT_FALSE(Readable(fd, 30));
  EXPECT_EQ(weft_work_free(work), WEFT_SUCCESS);
}

// Within test and wait it is the last reference to the work.
TEST_F(CallerProgress, ACallbackMayFreeTheHandleThatIsWaitedFor) {
  for (const bool by_test : {false, true}) {
    weft_work_t work = StartBarrier(pairs_[0][0]);
    const auto free_it = [](weft_result_t result, void* user) {
      EXPECT_EQ(result, WEFT_SUCCESS);
      auto* const handle = static_cast<weft_work_t*>(user);
      EXPECT_EQ(weft_work_free(*handle), WEFT_SUCCESS);
      *handle = nullptr;
    };
    EXPECT_EQ(weft_work_on_complete(work, free_it, &work), WEFT_SUCCESS) << weft_last_error();
    EXPECT_EQ(weft_barrier(pairs_[0][1], nullptr, nullptr), WEFT_SUCCESS) << weft_last_error();
    int done = 0;
    EXPECT_EQ(by_test ? weft_work_test(work, &done) : weft_work_wait(work, 0), WEFT_SUCCESS);
    EXPECT_EQ(done, by_test ? 1 : 0);
    EXPECT_EQ(work, nullptr);
  }
}

TEST_F(CallerProgress, ADestroyedGroupIsNotWaitedFor) {
  int fd = -1;
  ASSERT_EQ(weft_progress_fd(&fd), WEFT_SUCCESS);
  weft_work_t work = StartBarrier(pairs_[0][0]);
  EXPECT_EQ(weft_group_destroy(pairs_[0][0]), WEFT_SUCCESS);
  pairs_[0][0] = nullptr;
  EXPECT_EQ(weft_work_error(work), WEFT_ABORTED);
  EXPECT_EQ(weft_work_free(work), WEFT_SUCCESS);
  EXPECT_EQ(weft_progress(nullptr), WEFT_SUCCESS);
  EXPECT_EQ(RunningTimers(), 0);
}

TEST_F(CallerProgress, LargeOperationsOfAllRanksEndByProgressAlone) {
  constexpr size_t kCount = 300'007;
  std::vector<int32_t> data[3][2];
  weft_work_t works[3][2] = {};
  for (size_t g = 0; g < 3; ++g) {
    for (size_t rank = 0; rank < 2; ++rank) {
      std::vector<int32_t>& x = data[g][rank];
      x.assign(kCount, static_cast<int32_t>(g + rank));
      ASSERT_EQ(weft_all_reduce(x.data(), x.data(), kCount, WEFT_INT32, WEFT_SUM, pairs_[g][rank],
                                nullptr, &works[g][rank]),
                WEFT_SUCCESS)
          << weft_last_error();
    }
  }
  const auto all_ended = [&] {
    int left = 0;
    for (const auto& pair : works) {
      for (weft_work_t work : pair)
        left += weft_work_error(work) == WEFT_IN_PROGRESS ? 1 : 0;
    }
    return left == 0;
  };
  EXPECT_TRUE(PollUntil(all_ended));
  for (size_t g = 0; g < 3; ++g) {
    for (size_t rank = 0; rank < 2; ++rank) {
      EXPECT_EQ(weft_work_error(works[g][rank]), WEFT_SUCCESS);
      EXPECT_EQ(data[g][rank], std::vector<int32_t>(kCount, static_cast<int32_t>(2 * g + 1)));
      EXPECT_EQ(weft_work_free(works[g][rank]), WEFT_SUCCESS);
    }
  }
}

TEST_F(CallerProgress, ABatchMovesAllItsGroupsWhileItWaits) {
  constexpr size_t kCount = 300'007;
  OnThreads(2, [&](int rank) {
    std::vector<int32_t> a(kCount, rank);
    std::vector<int32_t> b(kCount, rank);
    std::vector<int32_t>* const order[] = {rank == 0 ? &a : &b, rank == 0 ? &b : &a};
    EXPECT_EQ(weft_batch_begin(), WEFT_SUCCESS);
    for (std::vector<int32_t>* const x : order) {
      EXPECT_EQ(weft_all_reduce(x->data(), x->data(), kCount, WEFT_INT32, WEFT_SUM,
                                pairs_[x == &a ? 0 : 1][rank], nullptr, nullptr),
                WEFT_SUCCESS);
    }
    EXPECT_EQ(weft_batch_end(), WEFT_SUCCESS) << weft_last_error();
    EXPECT_EQ(a, std::vector<int32_t>(kCount, 1));
    EXPECT_EQ(b, std::vector<int32_t>(kCount, 1));
  });
}

// Rank 0's operations are all ready when progress comes round: the order in which they end is the order
// in which their groups are served.
TEST_F(CallerProgress, GroupsAreServedByTheHighestPriorityOfTheirOperations) {
  struct Note {
    std::string* order;
    char name;
  };

  std::string order;
  Note notes[] = {{&order, 'a'}, {&order, 'b'}, {&order, 'c'}};
  const int priorities[] = {-1, 7, 0};
  std::vector<weft_work_t> works;
  for (size_t g = 0; g < 3; ++g) {
    works.push_back(StartBarrier(pairs_[g][0], priorities[g]));
    const auto write = [](weft_result_t, void* user) {
      const auto& note = *static_cast<Note*>(user);
      note.order->push_back(note.name);
    };
    EXPECT_EQ(weft_work_on_complete(works[g], write, &notes[g]), WEFT_SUCCESS);
    EXPECT_EQ(weft_barrier(pairs_[g][1], nullptr, nullptr), WEFT_SUCCESS);
  }
  EXPECT_EQ(order, "");
  EXPECT_EQ(weft_progress(nullptr), WEFT_SUCCESS);
  EXPECT_EQ(order, "bca");
  for (weft_work_t work : works)
    EXPECT_EQ(weft_work_free(work), WEFT_SUCCESS);
}

// A message that ends while a collective of its group is being moved.
TEST_F(CallerProgress, CallbacksOfMessagesRunWhileACollectiveWaits) {
  weft_group_t* const pair = pairs_[0];
  weft_work_t barrier = StartBarrier(pair[0]);
  int value = 0;
  weft_work_t receive = nullptr;
  ASSERT_EQ(weft_recv(&value, 1, WEFT_INT32, 1, 7, nullptr, pair[0], nullptr, &receive),
            WEFT_SUCCESS);
  int called = 0;
  const auto count = [](weft_result_t, void* calls) {
    ++*static_cast<int*>(calls);
  };
  ASSERT_EQ(weft_work_on_complete(receive, count, &called), WEFT_SUCCESS);
  const int sent = 5;
  ASSERT_EQ(weft_send(&sent, 1, WEFT_INT32, 0, 7, pair[1], nullptr, nullptr), WEFT_SUCCESS);
  for (int round = 0; round < 1000 && called == 0; ++round)
    EXPECT_EQ(weft_progress(nullptr), WEFT_SUCCESS);
  EXPECT_EQ(called, 1);
  EXPECT_EQ(value, 5);
  EXPECT_EQ(weft_barrier(pair[1], nullptr, nullptr), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(weft_work_wait(barrier, 0), WEFT_SUCCESS);
  EXPECT_EQ(weft_work_free(barrier), WEFT_SUCCESS);
  EXPECT_EQ(weft_work_free(receive), WEFT_SUCCESS);
}

}  // namespace
}  // namespace weft::test
