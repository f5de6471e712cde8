// What batch.h says: nothing starts before the end, orders across groups do not matter, failures are told
// once all has ended.
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "weft/weft.h"

#include "tests/bindings/batch_groups.h"
#include "tests/bindings/local_threads.h"

namespace weft::test::batch_test {
namespace {

constexpr size_t kLarge = 300'007;  // more than a slot: it takes several steps of both ranks

class Batch : public BatchGroups {
 protected:
  static weft_result_t Sum(std::vector<int32_t>& x, weft_group_t group, weft_work_t* work = nullptr,
                           int priority = 0) {
    weft_call_t call = {};
    call.struct_size = sizeof(call);
    call.priority = priority;
    return weft_all_reduce(x.data(), x.data(), x.size(), WEFT_INT32, WEFT_SUM, group, &call, work);
  }

  // out becomes in, as a broadcast in a group of one.
  weft_result_t Copy(const int32_t* in, int32_t* out, int priority = 0) {
    weft_call_t call = {};
    call.struct_size = sizeof(call);
    call.priority = priority;
    return weft_broadcast(in, out, 1, WEFT_INT32, 0, solo_, &call, nullptr);
  }
};

TEST_F(Batch, OrdersAcrossGroupsThatDifferDoNotDeadlock) {
  for (const size_t count : {size_t{3}, kLarge}) {
    for (int round = 0; round < 20; ++round) {
      OnThreads(2, [&](int rank) {
        std::vector<int32_t> a(count, rank + 1);
        std::vector<int32_t> b(count, 10 * (rank + 1));
        EXPECT_EQ(weft_batch_begin(), WEFT_SUCCESS);
        EXPECT_EQ(rank == 0 ? Sum(a, pairs_[0][rank]) : Sum(b, pairs_[1][rank]), WEFT_SUCCESS);
        EXPECT_EQ(rank == 0 ? Sum(b, pairs_[1][rank]) : Sum(a, pairs_[0][rank]), WEFT_SUCCESS);
        EXPECT_EQ(weft_batch_end(), WEFT_SUCCESS) << weft_last_error();
        EXPECT_EQ(a, std::vector<int32_t>(count, 3));
        EXPECT_EQ(b, std::vector<int32_t>(count, 30));
      });
    }
  }
}

TEST_F(Batch, NothingStartsBeforeTheOutermostEnd) {
  int32_t from = 5;
  int32_t to = 0;
  EXPECT_EQ(weft_batch_begin(), WEFT_SUCCESS);
  EXPECT_EQ(weft_batch_begin(), WEFT_SUCCESS);
  EXPECT_EQ(Copy(&from, &to), WEFT_SUCCESS);
  EXPECT_EQ(weft_batch_end(), WEFT_SUCCESS);
  EXPECT_EQ(to, 0);
  from = 6;
  EXPECT_EQ(weft_batch_end(), WEFT_SUCCESS);
  EXPECT_EQ(to, 6);
  from = 7;
  EXPECT_EQ(Copy(&from, &to), WEFT_SUCCESS);
  EXPECT_EQ(to, 7) << "after the batch calls are what they were";
}

// c gets a's value only if a -> b is started before b -> c.
TEST_F(Batch, LargerPrioritiesStartFirstAndEqualOnesInTheOrderOfTheCalls) {
  for (const bool urgent : {false, true}) {
    int32_t a = 1;
    int32_t b = 2;
    int32_t c = 3;
    EXPECT_EQ(weft_batch_begin(), WEFT_SUCCESS);
    EXPECT_EQ(Copy(&b, &c, -3), WEFT_SUCCESS);
    EXPECT_EQ(Copy(&a, &b, urgent ? -2 : -3), WEFT_SUCCESS);
    EXPECT_EQ(weft_batch_end(), WEFT_SUCCESS) << weft_last_error();
    EXPECT_EQ(b, 1);
    EXPECT_EQ(c, urgent ? 1 : 2);
  }
}

TEST_F(Batch, WorksAreNotWaitedForAndMayBeFreedInside) {
  std::vector<int32_t> kept(10, 1);
  std::vector<int32_t> given_up(10, 2);
  weft_work_t work = nullptr;
  weft_work_t freed = nullptr;
  EXPECT_EQ(weft_batch_begin(), WEFT_SUCCESS);
  EXPECT_EQ(Sum(given_up, pairs_[0][0], &freed), WEFT_SUCCESS);
  EXPECT_EQ(Sum(kept, pairs_[0][0], &work), WEFT_SUCCESS);
  EXPECT_EQ(weft_work_error(work), WEFT_BAD_STATE);
  EXPECT_EQ(weft_work_free(freed), WEFT_SUCCESS);
  EXPECT_EQ(weft_batch_end(), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(weft_work_error(work), WEFT_IN_PROGRESS) << "the other rank has not come";
  std::vector<int32_t> other(10, 40);
  EXPECT_EQ(Sum(other, pairs_[0][1]), WEFT_SUCCESS);
  EXPECT_EQ(Sum(other, pairs_[0][1]), WEFT_SUCCESS);
  int called = 0;
  EXPECT_EQ(weft_work_wait(work, 0), WEFT_SUCCESS);
  const auto count = [](weft_result_t result, void* user) {
    EXPECT_EQ(result, WEFT_SUCCESS);
    ++*static_cast<int*>(user);
  };
  EXPECT_EQ(weft_work_on_complete(work, count, &called), WEFT_SUCCESS);
  EXPECT_EQ(called, 1);
  EXPECT_EQ(given_up, std::vector<int32_t>(10, 42)) << "its operation ran all the same";
  EXPECT_EQ(kept, std::vector<int32_t>(10, 43));
  EXPECT_EQ(weft_work_free(work), WEFT_SUCCESS);
}

TEST_F(Batch, ARefusedCallIsNotNotedAndTheOthersRun) {
  int32_t from = 5;
  int32_t first = 0;
  int32_t second = 0;
  EXPECT_EQ(weft_batch_begin(), WEFT_SUCCESS);
  EXPECT_EQ(Copy(&from, &first), WEFT_SUCCESS);
  EXPECT_EQ(Copy(nullptr, &second), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(Copy(&from, &second), WEFT_SUCCESS);
  EXPECT_EQ(weft_batch_end(), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(first, 5);
  EXPECT_EQ(second, 5);
}

TEST_F(Batch, AFailureIsReturnedWhenAllHasEnded) {
  OnThreads(2, [&](int rank) {
    std::vector<int32_t> odd(static_cast<size_t>(10 + rank), 1);
    std::vector<int32_t> good(kLarge, rank);
    EXPECT_EQ(weft_batch_begin(), WEFT_SUCCESS);
    EXPECT_EQ(Sum(odd, pairs_[0][rank]), WEFT_SUCCESS);
    EXPECT_EQ(Sum(good, pairs_[1][rank]), WEFT_SUCCESS);
    EXPECT_EQ(weft_batch_end(), WEFT_MISMATCH);
    EXPECT_NE(std::string(weft_last_error()).find("10"), std::string::npos) << weft_last_error();
    EXPECT_EQ(good, std::vector<int32_t>(kLarge, 1));
  });
}

TEST_F(Batch, AGroupDestroyedInsideCostsItsOwnOperationsOnly) {
  weft_group_t gone = nullptr;
  ASSERT_EQ(weft_group_create_local(1, nullptr, &gone), WEFT_SUCCESS) << weft_last_error();
  std::vector<int32_t> x(10, 1);
  int32_t from = 5;
  int32_t to = 0;
  weft_work_t works[2] = {};
  EXPECT_EQ(weft_batch_begin(), WEFT_SUCCESS);
  for (weft_work_t& work : works)
    EXPECT_EQ(Sum(x, gone, &work), WEFT_SUCCESS);
  EXPECT_EQ(Copy(&from, &to), WEFT_SUCCESS);
  EXPECT_EQ(weft_group_destroy(gone), WEFT_SUCCESS);
  EXPECT_EQ(weft_batch_end(), WEFT_INVALID_USAGE);
  EXPECT_NE(std::string(weft_last_error()).find("was closed"), std::string::npos);
  EXPECT_EQ(to, 5);
  int done = 0;
  EXPECT_EQ(weft_work_test(works[0], &done), WEFT_INVALID_USAGE);
  EXPECT_EQ(done, 1);
  EXPECT_EQ(weft_work_wait(works[1], 0), WEFT_INVALID_USAGE);
  EXPECT_NE(std::string(weft_last_error()).find("not started, as an earlier"), std::string::npos)
      << weft_last_error();
  int called = 0;
  const auto count = [](weft_result_t result, void* user) {
    EXPECT_EQ(result, WEFT_INVALID_USAGE);
    ++*static_cast<int*>(user);
  };
  EXPECT_EQ(weft_work_on_complete(works[1], count, &called), WEFT_SUCCESS);
  EXPECT_EQ(weft_work_on_complete(works[1], count, &called), WEFT_INVALID_USAGE);
  EXPECT_EQ(called, 1);
  for (weft_work_t work : works)
    EXPECT_EQ(weft_work_free(work), WEFT_SUCCESS);
}

TEST_F(Batch, BelongsToItsThread) {
  int32_t from = 5;
  int32_t here = 0;
  int32_t there = 0;
  EXPECT_EQ(weft_batch_begin(), WEFT_SUCCESS);
  EXPECT_EQ(Copy(&from, &here), WEFT_SUCCESS);
  std::thread([&] {
    EXPECT_EQ(Copy(&from, &there), WEFT_SUCCESS);
    EXPECT_EQ(there, 5) << "no batch on this thread";
    EXPECT_EQ(weft_batch_end(), WEFT_BAD_STATE);
  }).join();
  EXPECT_EQ(here, 0);
  EXPECT_EQ(weft_batch_end(), WEFT_SUCCESS);
  EXPECT_EQ(here, 5);
}

TEST_F(Batch, AThreadThatEndsWithinItsBatchStartsNothing) {
  std::vector<int32_t> x(10, 1);
  weft_work_t work = nullptr;
  std::thread([&] {
    EXPECT_EQ(weft_batch_begin(), WEFT_SUCCESS);
    EXPECT_EQ(Sum(x, solo_, &work), WEFT_SUCCESS);
  }).join();
  EXPECT_EQ(weft_work_wait(work, 0), WEFT_BAD_STATE);
  EXPECT_NE(std::string(weft_last_error()).find("did not end it"), std::string::npos);
  EXPECT_EQ(weft_work_free(work), WEFT_SUCCESS);
}

TEST_F(Batch, MayBeginAgainInACallbackOfItsEnd) {
  struct Chain {
    weft_group_t group;
    int32_t from = 5;
    int32_t to = 0;
    weft_work_t work = nullptr;
  } chain{.group = solo_};

  const auto go_on = [](weft_result_t, void* user) {
    auto& next = *static_cast<Chain*>(user);
    EXPECT_EQ(weft_batch_begin(), WEFT_SUCCESS);
    EXPECT_EQ(
        weft_broadcast(&next.from, &next.to, 1, WEFT_INT32, 0, next.group, nullptr, &next.work),
        WEFT_SUCCESS);
    EXPECT_EQ(weft_batch_end(), WEFT_SUCCESS);
  };
  std::vector<int32_t> x(10, 1);
  weft_work_t work = nullptr;
  EXPECT_EQ(Sum(x, solo_, &work), WEFT_SUCCESS);
  EXPECT_EQ(weft_work_on_complete(work, go_on, &chain), WEFT_SUCCESS);
  EXPECT_EQ(weft_work_wait(work, 0), WEFT_SUCCESS);
  ASSERT_NE(chain.work, nullptr);
  EXPECT_EQ(weft_work_wait(chain.work, 0), WEFT_SUCCESS);
  EXPECT_EQ(chain.to, 5);
  EXPECT_EQ(weft_work_free(chain.work), WEFT_SUCCESS);
  EXPECT_EQ(weft_work_free(work), WEFT_SUCCESS);
}

}  // namespace
}  // namespace weft::test::batch_test
