// weft_group_set_timeout: the deadline of calls to come, told from that of the group's config by the error's sentence.
#include <cstdint>
#include <functional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weft/weft.h"

#include "tests/bindings/local_threads.h"

namespace weft::test::group_timeout_test {
namespace {

using testing::HasSubstr;

constexpr int64_t kShortNs = 250'000'000;
constexpr const char* kShort = "within 0.25 s";

class GroupTimeout : public testing::Test {
 protected:
  // The config's deadline: what a test takes whose group does not obey.
  static constexpr int64_t kLongNs = 120'000'000'000;

  void SetUp() override {
    const weft_group_config_t config = ConfigNamed("patient", kLongNs);
    ASSERT_EQ(weft_group_create_local(2, &config, groups_), WEFT_SUCCESS) << weft_last_error();
  }

  void TearDown() override {
    for (weft_group_t group : groups_)
      EXPECT_EQ(weft_group_destroy(group), WEFT_SUCCESS);
  }

  weft_result_t Sum(int rank, weft_work_t* work = nullptr, const weft_call_t* call = nullptr) {
    return weft_all_reduce(&in_[rank], &out_[rank], 1, WEFT_INT32, WEFT_SUM, groups_[rank], call,
                           work);
  }

  // Both ranks do it, so that the group knows the call.
  void SumOnBoth() {
    OnThreads(2, [&](int rank) { EXPECT_EQ(Sum(rank), WEFT_SUCCESS) << weft_last_error(); });
  }

  weft_group_t groups_[2] = {};
  int32_t in_[2] = {1, 2};
  int32_t out_[2] = {};
};

TEST_F(GroupTimeout, EndsABlockingCallThatNobodyElseMakes) {
  ASSERT_EQ(weft_group_set_timeout(groups_[0], kShortNs), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(Sum(0), WEFT_TIMEOUT);
  EXPECT_THAT(weft_last_error(), HasSubstr(kShort));
}

TEST_F(GroupTimeout, EndsACallThatTheGroupKnows) {
  SumOnBoth();
  ASSERT_EQ(weft_group_set_timeout(groups_[0], kShortNs), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(Sum(0), WEFT_TIMEOUT);
  EXPECT_THAT(weft_last_error(), HasSubstr(kShort));
}

TEST_F(GroupTimeout, EndsStartedOperations) {
  for (const bool known : {false, true}) {
    if (known) {
      TearDown();
      SetUp();
      SumOnBoth();
    }
    ASSERT_EQ(weft_group_set_timeout(groups_[0], kShortNs), WEFT_SUCCESS) << weft_last_error();
    weft_work_t work = nullptr;
    ASSERT_EQ(Sum(0, &work), WEFT_SUCCESS) << weft_last_error();
    EXPECT_EQ(weft_work_wait(work, 0), WEFT_TIMEOUT);
    EXPECT_THAT(weft_last_error(), HasSubstr(kShort)) << known;
    EXPECT_EQ(weft_work_free(work), WEFT_SUCCESS);
  }
}

TEST_F(GroupTimeout, EndsMessages) {
  ASSERT_EQ(weft_group_set_timeout(groups_[0], kShortNs), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(weft_recv(&out_[0], 1, WEFT_INT32, 1, 0, nullptr, groups_[0], nullptr, nullptr),
            WEFT_TIMEOUT);
  EXPECT_THAT(weft_last_error(), HasSubstr(kShort));
}

TEST_F(GroupTimeout, GivesWayToTheCallsOwn) {
  ASSERT_EQ(weft_group_set_timeout(groups_[0], kLongNs), WEFT_SUCCESS) << weft_last_error();
  weft_call_t call = {};
  call.struct_size = sizeof(call);
  call.timeout_ns = kShortNs;
  EXPECT_EQ(Sum(0, nullptr, &call), WEFT_TIMEOUT);
  EXPECT_THAT(weft_last_error(), HasSubstr(kShort));
}

TEST_F(GroupTimeout, LeavesOperationsUnderWayTheirs) {
  weft_work_t work = nullptr;
  ASSERT_EQ(Sum(0, &work), WEFT_SUCCESS) << weft_last_error();
  ASSERT_EQ(weft_group_set_timeout(groups_[0], kShortNs), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(weft_work_wait(work, 2 * kShortNs), WEFT_IN_PROGRESS);
  EXPECT_EQ(Sum(1), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(weft_work_wait(work, 0), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(weft_work_free(work), WEFT_SUCCESS);
  EXPECT_EQ(out_[0], 3);
}

TEST_F(GroupTimeout, OfZeroIsTheDefault) {
  ASSERT_EQ(weft_group_set_timeout(groups_[0], kShortNs), WEFT_SUCCESS) << weft_last_error();
  ASSERT_EQ(weft_group_set_timeout(groups_[0], 0), WEFT_SUCCESS) << weft_last_error();
  weft_work_t work = nullptr;
  ASSERT_EQ(Sum(0, &work), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(weft_work_wait(work, 2 * kShortNs), WEFT_IN_PROGRESS);
  EXPECT_EQ(Sum(1), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(weft_work_wait(work, 0), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(weft_work_free(work), WEFT_SUCCESS);
}

TEST_F(GroupTimeout, IsInheritedByLaterPartsOnly) {
  weft_group_t before[2] = {};
  weft_group_t after[2] = {};
  OnThreads(2, [&](int rank) {
    ASSERT_EQ(weft_group_split(groups_[rank], 0, 0, nullptr, &before[rank]), WEFT_SUCCESS)
        << weft_last_error();
    ASSERT_EQ(weft_group_set_timeout(groups_[rank], 20 * kShortNs), WEFT_SUCCESS);
    ASSERT_EQ(weft_group_split(groups_[rank], 0, 0, nullptr, &after[rank]), WEFT_SUCCESS)
        << weft_last_error();
  });
  weft_work_t work = nullptr;
  ASSERT_EQ(weft_barrier(before[0], nullptr, &work), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(weft_barrier(after[0], nullptr, nullptr), WEFT_TIMEOUT);
  EXPECT_THAT(weft_last_error(), HasSubstr("within 5 s"));
  EXPECT_EQ(weft_work_error(work), WEFT_IN_PROGRESS) << weft_last_error();
  EXPECT_EQ(weft_barrier(before[1], nullptr, nullptr), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(weft_work_wait(work, 0), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(weft_work_free(work), WEFT_SUCCESS);
  for (weft_group_t group : {before[0], before[1], after[0], after[1]})
    EXPECT_EQ(weft_group_destroy(group), WEFT_SUCCESS);
}

}  // namespace
}  // namespace weft::test::group_timeout_test
