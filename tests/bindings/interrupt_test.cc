// weft_set_interrupt: whatever a thread waits in, its check ends it; peers are told whose program that was.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "weft/weft.h"

#include "local_threads.h"
#include "tests/bindings/interrupt_check.h"
#include "tests/bindings/shard_calls.h"

namespace weft::test::interrupt_test {
namespace {

class Interrupts : public testing::TestWithParam<int> {
 protected:
  Interrupts() : groups_(static_cast<size_t>(GetParam())) {
    const weft_group_config_t config = ConfigNamed("stop");
    EXPECT_EQ(weft_group_create_local(size(), &config, groups_.data()), WEFT_SUCCESS)
        << weft_last_error();
  }

  ~Interrupts() override {
    for (weft_group_t group : groups_)
      EXPECT_EQ(weft_group_destroy(group), WEFT_SUCCESS) << weft_last_error();
  }

  int size() const { return GetParam(); }

  weft_group_t group(int rank) const { return groups_[static_cast<size_t>(rank)]; }

 private:
  std::vector<weft_group_t> groups_;
};

// Rank 0 is interrupted in a call that the last rank never makes.
TEST_P(Interrupts, EndABlockingCallAndPeersNameTheRank) {
  for (const size_t count : {size_t{2}, size_t{100'000}}) {
    std::vector<weft_group_t> parts(static_cast<size_t>(size()));
    OnThreads(size(), [&](int rank) {
      EXPECT_EQ(weft_group_split(group(rank), 0, rank, nullptr, &parts[static_cast<size_t>(rank)]),
                WEFT_SUCCESS)
          << weft_last_error();
    });
    OnThreads(size(), [&](int rank) {
      if (rank == size() - 1) return;
      weft_group_t part = parts[static_cast<size_t>(rank)];
      std::vector<int64_t> values(count, rank);
      Check check{.at = 3};
      const auto call = [&] {
        return weft_all_reduce(values.data(), values.data(), count, WEFT_INT64, WEFT_SUM, part,
                               nullptr, nullptr);
      };
      if (rank == 0) {
        const Asking asking(&check);
        EXPECT_EQ(call(), WEFT_INTERRUPTED);
        EXPECT_EQ(check.asked, 3);
      } else {
        EXPECT_EQ(call(), WEFT_ABORTED);
      }
      EXPECT_TRUE(LastErrorHas("rank 0")) << weft_last_error();
      EXPECT_TRUE(LastErrorHas("interrupted by its program")) << weft_last_error();
      weft_error_info_t info = {};
      info.struct_size = sizeof(info);
      EXPECT_EQ(weft_last_error_info(&info), WEFT_SUCCESS);
      EXPECT_EQ(info.rank, 0);
      EXPECT_EQ(call(), WEFT_ABORTED);
    });
    for (weft_group_t part : parts)
      EXPECT_EQ(weft_group_destroy(part), WEFT_SUCCESS) << weft_last_error();
  }
}

TEST_P(Interrupts, LeaveAWorkAlone) {
  std::atomic<bool> interrupted{false};
  OnThreads(size(), [&](int rank) {
    int64_t value = 1;
    while (rank == size() - 1 && !interrupted)
      std::this_thread::yield();
    weft_work_t work = nullptr;
    EXPECT_EQ(weft_all_reduce(&value, &value, 1, WEFT_INT64, WEFT_SUM, group(rank), nullptr, &work),
              WEFT_SUCCESS);
    if (rank == 0) {
      Check check{.at = 2};
      const Asking asking(&check);
      EXPECT_EQ(weft_work_wait(work, 0), WEFT_INTERRUPTED);
      EXPECT_EQ(weft_work_error(work), WEFT_IN_PROGRESS);
      interrupted = true;
    }
    EXPECT_EQ(weft_work_wait(work, 0), WEFT_SUCCESS) << weft_last_error();
    EXPECT_EQ(value, size());
    EXPECT_EQ(weft_work_free(work), WEFT_SUCCESS);
  });
}

TEST_P(Interrupts, EndASplit) {
  Check check{.at = 2};
  const Asking asking(&check);
  weft_group_t part = nullptr;
  EXPECT_EQ(weft_group_split(group(0), 0, 0, nullptr, &part), WEFT_INTERRUPTED);
  EXPECT_TRUE(LastErrorHas("interrupted")) << weft_last_error();
}

// Behind an operation that is queued, a blocking call waits for its turn; in a batch, for its end.
TEST_P(Interrupts, EndABlockingCallThatIsQueuedOrInABatch) {
  for (const bool batch : {false, true}) {
    weft_group_t pair[2] = {};
    const weft_group_config_t config = ConfigNamed("queued");
    ASSERT_EQ(weft_group_create_local(2, &config, pair), WEFT_SUCCESS) << weft_last_error();
    std::vector<int64_t> first(50'000, 1), second(50'000, 2);
    weft_work_t work = nullptr;
    EXPECT_EQ(weft_all_reduce(first.data(), first.data(), first.size(), WEFT_INT64, WEFT_SUM,
                              pair[0], nullptr, &work),
              WEFT_SUCCESS);
    {
      Check check{.at = 2};
      const Asking asking(&check);
      if (batch) {
        EXPECT_EQ(weft_batch_begin(), WEFT_SUCCESS);
      }
      const weft_result_t called = weft_all_reduce(second.data(), second.data(), second.size(),
                                                   WEFT_INT64, WEFT_SUM, pair[0], nullptr, nullptr);
      const weft_result_t result = batch ? weft_batch_end() : called;
      EXPECT_EQ(result, WEFT_INTERRUPTED) << weft_last_error();
    }
    EXPECT_EQ(weft_work_wait(work, 0), WEFT_ABORTED);
    EXPECT_TRUE(LastErrorHas("interrupted by its program")) << weft_last_error();
    EXPECT_EQ(weft_work_free(work), WEFT_SUCCESS);
    EXPECT_EQ(weft_barrier(pair[1], nullptr, nullptr), WEFT_ABORTED);
    EXPECT_TRUE(LastErrorHas("rank 0")) << weft_last_error();
    for (weft_group_t group : pair)
      EXPECT_EQ(weft_group_destroy(group), WEFT_SUCCESS);
  }
}

TEST_P(Interrupts, EndTheWaitOfACompletionQueue) {
  weft_completion_queue_t queue = nullptr;
  ASSERT_EQ(weft_completion_queue_create(nullptr, &queue), WEFT_SUCCESS) << weft_last_error();
  weft_completion_t completion = {};
  size_t count = 0;
  {
    Check check{.at = 2};
    const Asking asking(&check);
    EXPECT_EQ(weft_completion_queue_wait(queue, 0, &completion, 1, &count), WEFT_INTERRUPTED);
  }
  EXPECT_EQ(count, 0u);
  EXPECT_EQ(weft_completion_queue_destroy(queue), WEFT_SUCCESS);
}

INSTANTIATE_TEST_SUITE_P(Ranks, Interrupts, testing::Values(2, 3));

class InterruptsOfTwo : public Interrupts {};

TEST_P(InterruptsOfTwo, EndAMessage) {
  int64_t value = 0;
  Check check{.at = 2};
  const Asking asking(&check);
  EXPECT_EQ(weft_recv(&value, 1, WEFT_INT64, 1, 5, nullptr, group(0), nullptr, nullptr),
            WEFT_INTERRUPTED);
  EXPECT_EQ(weft_send(&value, 1, WEFT_INT64, 0, 5, group(1), nullptr, nullptr), WEFT_ABORTED);
  EXPECT_TRUE(LastErrorHas("rank 0")) << weft_last_error();
}

TEST_P(InterruptsOfTwo, LeaveAMessagesWorkAlone) {
  int64_t in = 7, out = 0;
  weft_work_t work = nullptr;
  EXPECT_EQ(weft_recv(&out, 1, WEFT_INT64, 1, 5, nullptr, group(0), nullptr, &work), WEFT_SUCCESS);
  {
    Check check{.at = 2};
    const Asking asking(&check);
    EXPECT_EQ(weft_work_wait(work, 0), WEFT_INTERRUPTED);
  }
  EXPECT_EQ(weft_send(&in, 1, WEFT_INT64, 0, 5, group(1), nullptr, nullptr), WEFT_SUCCESS);
  EXPECT_EQ(weft_work_wait(work, 0), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(weft_work_free(work), WEFT_SUCCESS);
  EXPECT_EQ(out, in);
}

TEST_P(InterruptsOfTwo, EndACallOfAShardContext) {
  weft_mesh_t mesh = nullptr;
  ASSERT_EQ(weft_mesh_create(group(0), nullptr, &mesh), WEFT_SUCCESS) << weft_last_error();
  weft_shard_context_t context = nullptr;
  ASSERT_EQ(weft_shard_context_create(mesh, nullptr, &context), WEFT_SUCCESS) << weft_last_error();
  weft_shard_unit_t unit = nullptr;
  ASSERT_EQ(weft_shard_unit_begin(context, "block", nullptr, &unit), WEFT_SUCCESS);
  weft_shard_param_t param = nullptr;
  const int64_t shape = 8;
  ASSERT_EQ(AddParam(unit, "weight", &shape, 1, WEFT_FLOAT32, 0, &param), WEFT_SUCCESS);
  ASSERT_EQ(weft_shard_unit_seal(unit), WEFT_SUCCESS);
  weft_shard_plan_t plan = {};
  plan.struct_size = sizeof(plan);
  {
    Check check{.at = 2};
    const Asking asking(&check);
    EXPECT_EQ(weft_shard_context_finalize(context, &plan), WEFT_INTERRUPTED) << weft_last_error();
  }
  EXPECT_EQ(weft_barrier(group(1), nullptr, nullptr), WEFT_ABORTED);
  EXPECT_TRUE(LastErrorHas("rank 0")) << weft_last_error();
  EXPECT_EQ(weft_shard_context_destroy(context), WEFT_SUCCESS);
  EXPECT_EQ(weft_mesh_destroy(mesh), WEFT_SUCCESS);
}

INSTANTIATE_TEST_SUITE_P(Ranks, InterruptsOfTwo, testing::Values(2));

TEST(Interrupt, EndsTheMakingOfAGroup) {
  const weft_group_config_t config = ConfigNamed("late");
  for (const int rank : {0, 1}) {
    weft_unique_id_t id;
    ASSERT_EQ(weft_unique_id_create(&id), WEFT_SUCCESS) << weft_last_error();
    Check check{.at = 2};
    const Asking asking(&check);
    weft_group_t group = nullptr;
    EXPECT_EQ(weft_group_create_from_id(&id, 2, rank, &config, &group), WEFT_INTERRUPTED)
        << weft_last_error();
    EXPECT_EQ(group, nullptr);
  }
}

// A check belongs to its thread, and one that says no is none.
TEST(Interrupt, IsOfOneThread) {
  const weft_group_config_t config = ConfigNamed("other");
  weft_group_t groups[2] = {};
  ASSERT_EQ(weft_group_create_local(2, &config, groups), WEFT_SUCCESS) << weft_last_error();
  Check check{.at = 1};
  const Asking asking(&check);
  OnThreads(2, [&](int rank) {
    Check never{.at = 0};
    const Asking own(&never);
    for (int i = 0; i < 3; ++i) {
      if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(30));
      EXPECT_EQ(weft_barrier(groups[rank], nullptr, nullptr), WEFT_SUCCESS) << weft_last_error();
    }
    if (rank == 0) {
      EXPECT_GT(never.asked, 0);
    }
  });
  EXPECT_EQ(check.asked, 0);
  for (weft_group_t group : groups)
    EXPECT_EQ(weft_group_destroy(group), WEFT_SUCCESS);
}

}  // namespace
}  // namespace weft::test::interrupt_test
