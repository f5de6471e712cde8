// weft_batch_cancel: nothing of the batch is started, and everybody who waits for it is told.
#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weft/weft.h"

#include "tests/bindings/batch_groups.h"
#include "tests/bindings/local_threads.h"

namespace weft::test::batch_cancel_test {
namespace {

using testing::HasSubstr;

constexpr const char* kReason = "cancelled a batch with operations of this group";

class BatchCancel : public BatchGroups {
 protected:
  static weft_result_t Sum(int32_t* x, weft_group_t group, weft_work_t* work = nullptr) {
    return weft_all_reduce(x, x, 1, WEFT_INT32, WEFT_SUM, group, nullptr, work);
  }

  // Both ranks of a pair, each on a thread, sum 1 and 2.
  static void ExpectWorks(weft_group_t* pair) {
    OnThreads(2, [pair](int rank) {
      int32_t x = rank + 1;
      EXPECT_EQ(Sum(&x, pair[rank]), WEFT_SUCCESS) << weft_last_error();
      EXPECT_EQ(x, 3);
    });
  }

  static void ExpectAborted(weft_group_t group) {
    int32_t x = 1;
    EXPECT_EQ(Sum(&x, group), WEFT_ABORTED);
    EXPECT_THAT(weft_last_error(), HasSubstr(kReason));
    EXPECT_EQ(x, 1);
  }
};

TEST_F(BatchCancel, StartsNothingAndAbortsTheGroup) {
  const int32_t from = 5;
  int32_t to = 0;
  EXPECT_EQ(weft_batch_begin(), WEFT_SUCCESS);
  EXPECT_EQ(weft_broadcast(&from, &to, 1, WEFT_INT32, 0, solo_, nullptr, nullptr), WEFT_SUCCESS);
  EXPECT_EQ(weft_batch_cancel(), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(to, 0);
  uint64_t sequence = UINT64_MAX;
  EXPECT_EQ(weft_group_sequence(solo_, &sequence), WEFT_SUCCESS);
  EXPECT_EQ(sequence, 0u);
  EXPECT_EQ(weft_group_error(solo_), WEFT_ABORTED);
  ExpectAborted(solo_);
}

TEST_F(BatchCancel, EndsItsWorksWithAborted) {
  int32_t x = 1;
  weft_work_t kept = nullptr;
  weft_work_t freed = nullptr;
  EXPECT_EQ(weft_batch_begin(), WEFT_SUCCESS);
  EXPECT_EQ(Sum(&x, pairs_[0][0], &freed), WEFT_SUCCESS);
  EXPECT_EQ(Sum(&x, pairs_[0][0], &kept), WEFT_SUCCESS);
  EXPECT_EQ(weft_work_error(kept), WEFT_BAD_STATE);
  EXPECT_EQ(weft_work_free(freed), WEFT_SUCCESS);
  EXPECT_EQ(weft_batch_cancel(), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(weft_work_error(kept), WEFT_ABORTED);
  int done = 0;
  EXPECT_EQ(weft_work_test(kept, &done), WEFT_ABORTED);
  EXPECT_EQ(done, 1);
  EXPECT_EQ(weft_work_wait(kept, 0), WEFT_ABORTED);
  EXPECT_THAT(weft_last_error(), HasSubstr("was cancelled by weft_batch_cancel()"));
  int called = 0;
  const auto count = [](weft_result_t result, void* user) {
    EXPECT_EQ(result, WEFT_ABORTED);
    ++*static_cast<int*>(user);
  };
  EXPECT_EQ(weft_work_on_complete(kept, count, &called), WEFT_SUCCESS);
  EXPECT_EQ(called, 1);
  EXPECT_EQ(weft_work_free(kept), WEFT_SUCCESS);
  EXPECT_EQ(x, 1);
}

TEST_F(BatchCancel, TellsPeersThatWaitForACollectiveOrAMessage) {
  OnThreads(2, [&](int rank) {
    int32_t x = rank;
    if (rank == 0) {
      EXPECT_EQ(weft_batch_begin(), WEFT_SUCCESS);
      EXPECT_EQ(Sum(&x, pairs_[0][0]), WEFT_SUCCESS);
      EXPECT_EQ(weft_send(&x, 1, WEFT_INT32, 1, 0, pairs_[1][0], nullptr, nullptr), WEFT_SUCCESS);
      EXPECT_EQ(weft_batch_cancel(), WEFT_SUCCESS) << weft_last_error();
      return;
    }
    ExpectAborted(pairs_[0][1]);
    EXPECT_EQ(weft_recv(&x, 1, WEFT_INT32, 0, 0, nullptr, pairs_[1][1], nullptr, nullptr),
              WEFT_ABORTED);
    EXPECT_THAT(weft_last_error(), HasSubstr(kReason));
    EXPECT_THAT(weft_last_error(), HasSubstr("rank 0"));
  });
}

TEST_F(BatchCancel, LeavesOtherGroupsAlone) {
  int32_t x = 1;
  EXPECT_EQ(weft_batch_begin(), WEFT_SUCCESS);
  EXPECT_EQ(Sum(&x, pairs_[0][0]), WEFT_SUCCESS);
  EXPECT_EQ(weft_broadcast(nullptr, &x, 1, WEFT_INT32, 7, pairs_[1][0], nullptr, nullptr),
            WEFT_INVALID_ARGUMENT)
      << "refused, and so not noted";
  EXPECT_EQ(weft_batch_cancel(), WEFT_SUCCESS) << weft_last_error();
  ExpectWorks(pairs_[1]);
  ExpectAborted(pairs_[0][0]);
}

TEST_F(BatchCancel, OfAnEmptyBatchTouchesNoGroup) {
  EXPECT_EQ(weft_batch_begin(), WEFT_SUCCESS);
  EXPECT_EQ(weft_batch_cancel(), WEFT_SUCCESS) << weft_last_error();
  for (auto& pair : pairs_)
    ExpectWorks(pair);
}

TEST_F(BatchCancel, OfAnInnerLevelIsOfTheWholeBatch) {
  int32_t x = 1;
  weft_work_t works[3] = {};
  EXPECT_EQ(weft_batch_begin(), WEFT_SUCCESS);
  EXPECT_EQ(Sum(&x, pairs_[0][0], &works[0]), WEFT_SUCCESS);
  EXPECT_EQ(weft_batch_begin(), WEFT_SUCCESS);
  EXPECT_EQ(Sum(&x, pairs_[0][0], &works[1]), WEFT_SUCCESS);
  EXPECT_EQ(weft_batch_cancel(), WEFT_SUCCESS) << weft_last_error();
  for (const int i : {0, 1})
    EXPECT_EQ(weft_work_error(works[i]), WEFT_ABORTED);
  // The outer level goes on, as it does not know.
  EXPECT_EQ(Sum(&x, pairs_[1][0], &works[2]), WEFT_SUCCESS);
  EXPECT_EQ(weft_work_error(works[2]), WEFT_BAD_STATE);
  EXPECT_EQ(weft_batch_begin(), WEFT_SUCCESS);
  EXPECT_EQ(weft_batch_end(), WEFT_SUCCESS);
  EXPECT_EQ(weft_batch_end(), WEFT_ABORTED);
  EXPECT_THAT(weft_last_error(), HasSubstr("weft_batch_cancel() was called inside it"));
  EXPECT_EQ(weft_work_error(works[2]), WEFT_ABORTED);
  for (auto& pair : pairs_)
    ExpectAborted(pair[1]);
  EXPECT_EQ(x, 1);
  for (weft_work_t work : works)
    EXPECT_EQ(weft_work_free(work), WEFT_SUCCESS);
  EXPECT_EQ(weft_batch_end(), WEFT_BAD_STATE);
}

TEST_F(BatchCancel, OfAllLevelsEndsThemAll) {
  int32_t x = 1;
  for (int level = 0; level < 3; ++level)
    EXPECT_EQ(weft_batch_begin(), WEFT_SUCCESS);
  EXPECT_EQ(Sum(&x, pairs_[0][0]), WEFT_SUCCESS);
  for (int level = 0; level < 3; ++level)
    EXPECT_EQ(weft_batch_cancel(), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(weft_batch_cancel(), WEFT_BAD_STATE);
}

TEST_F(BatchCancel, DoesNotSpoilTheNextBatch) {
  int32_t x = 1;
  EXPECT_EQ(weft_batch_begin(), WEFT_SUCCESS);
  EXPECT_EQ(Sum(&x, pairs_[0][0]), WEFT_SUCCESS);
  EXPECT_EQ(weft_batch_begin(), WEFT_SUCCESS);
  EXPECT_EQ(weft_batch_cancel(), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(weft_batch_cancel(), WEFT_SUCCESS) << weft_last_error();
  const int32_t from = 5;
  int32_t to = 0;
  EXPECT_EQ(weft_batch_begin(), WEFT_SUCCESS);
  EXPECT_EQ(weft_broadcast(&from, &to, 1, WEFT_INT32, 0, solo_, nullptr, nullptr), WEFT_SUCCESS);
  EXPECT_EQ(weft_batch_end(), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(to, 5);
}

TEST_F(BatchCancel, AfterAGroupWasDestroyedInside) {
  weft_group_t gone = nullptr;
  ASSERT_EQ(weft_group_create_local(1, nullptr, &gone), WEFT_SUCCESS) << weft_last_error();
  int32_t x = 1;
  weft_work_t work = nullptr;
  EXPECT_EQ(weft_batch_begin(), WEFT_SUCCESS);
  EXPECT_EQ(Sum(&x, gone, &work), WEFT_SUCCESS);
  EXPECT_EQ(weft_group_destroy(gone), WEFT_SUCCESS);
  EXPECT_EQ(weft_batch_cancel(), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(weft_work_wait(work, 0), WEFT_ABORTED);
  EXPECT_EQ(weft_work_free(work), WEFT_SUCCESS);
}

}  // namespace
}  // namespace weft::test::batch_cancel_test
