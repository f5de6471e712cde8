// weft_group_sequence counts the collectives that a rank has issued, and is the number in their errors.
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "weft/weft.h"

#include "tests/bindings/local_threads.h"

namespace weft::test::group_sequence_test {
namespace {

uint64_t SequenceOf(weft_group_t group) {
  uint64_t sequence = UINT64_MAX;
  EXPECT_EQ(weft_group_sequence(group, &sequence), WEFT_SUCCESS) << weft_last_error();
  return sequence;
}

class GroupSequence : public testing::Test {
 protected:
  void SetUp() override {
    const weft_group_config_t config = ConfigNamed("sequence");
    ASSERT_EQ(weft_group_create_local(2, &config, groups_), WEFT_SUCCESS) << weft_last_error();
  }

  void TearDown() override {
    for (weft_group_t group : groups_)
      EXPECT_EQ(weft_group_destroy(group), WEFT_SUCCESS);
  }

  weft_group_t groups_[2] = {};
};

TEST_F(GroupSequence, CountsBlockingAndStartedCollectives) {
  OnThreads(2, [&](int rank) {
    weft_group_t group = groups_[rank];
    const uint64_t before = SequenceOf(group);
    for (uint64_t call = 1; call <= 5; ++call) {
      EXPECT_EQ(weft_barrier(group, nullptr, nullptr), WEFT_SUCCESS) << weft_last_error();
      EXPECT_EQ(SequenceOf(group), before + call);
    }
    weft_work_t works[3] = {};
    for (weft_work_t& work : works)
      EXPECT_EQ(weft_barrier(group, nullptr, &work), WEFT_SUCCESS) << weft_last_error();
    EXPECT_EQ(SequenceOf(group), before + 8) << "from their start on";
    for (weft_work_t work : works) {
      EXPECT_EQ(weft_work_wait(work, 0), WEFT_SUCCESS) << weft_last_error();
      EXPECT_EQ(weft_work_free(work), WEFT_SUCCESS);
    }
    EXPECT_EQ(SequenceOf(group), before + 8);
  });
}

TEST_F(GroupSequence, CountsNeitherMessagesNorRefusedCalls) {
  OnThreads(2, [&](int rank) {
    weft_group_t group = groups_[rank];
    const uint64_t before = SequenceOf(group);
    const int32_t in = rank;
    int32_t out = -1;
    EXPECT_EQ(weft_sendrecv(&in, 1, 1 - rank, 0, &out, 1, 1 - rank, 0, WEFT_INT32, nullptr, group,
                            nullptr, nullptr),
              WEFT_SUCCESS)
        << weft_last_error();
    EXPECT_EQ(weft_broadcast(&in, &out, 1, WEFT_INT32, 2, group, nullptr, nullptr),
              WEFT_INVALID_ARGUMENT);
    EXPECT_EQ(SequenceOf(group), before);
  });
}

TEST_F(GroupSequence, CountsThoseOfABatchFromItsEndOn) {
  OnThreads(2, [&](int rank) {
    weft_group_t group = groups_[rank];
    const uint64_t before = SequenceOf(group);
    EXPECT_EQ(weft_batch_begin(), WEFT_SUCCESS);
    EXPECT_EQ(weft_barrier(group, nullptr, nullptr), WEFT_SUCCESS);
    EXPECT_EQ(weft_barrier(group, nullptr, nullptr), WEFT_SUCCESS);
    EXPECT_EQ(SequenceOf(group), before);
    EXPECT_EQ(weft_batch_end(), WEFT_SUCCESS) << weft_last_error();
    EXPECT_EQ(SequenceOf(group), before + 2);
  });
}

TEST_F(GroupSequence, IsTheNumberInTheError) {
  OnThreads(2, [&](int rank) {
    weft_group_t group = groups_[rank];
    EXPECT_EQ(weft_barrier(group, nullptr, nullptr), WEFT_SUCCESS) << weft_last_error();
    std::vector<int32_t> x(static_cast<size_t>(4 + rank));
    EXPECT_EQ(weft_all_reduce(x.data(), x.data(), x.size(), WEFT_INT32, WEFT_SUM, group, nullptr,
                              nullptr),
              WEFT_MISMATCH);
    weft_error_info_t info = {};
    info.struct_size = sizeof(info);
    EXPECT_EQ(weft_last_error_info(&info), WEFT_SUCCESS);
    EXPECT_EQ(SequenceOf(group), static_cast<uint64_t>(info.sequence));
  });
}

TEST_F(GroupSequence, IsTheSameOnAllRanksThatHaveSplit) {
  weft_group_t parts[2] = {};
  uint64_t sequences[2] = {};
  OnThreads(2, [&](int rank) {
    ASSERT_EQ(weft_group_split(groups_[rank], 0, 0, nullptr, &parts[rank]), WEFT_SUCCESS)
        << weft_last_error();
    sequences[rank] = SequenceOf(groups_[rank]);
  });
  EXPECT_EQ(sequences[0], sequences[1]);
  EXPECT_GT(sequences[0], 0u);
  for (weft_group_t part : parts)
    EXPECT_EQ(weft_group_destroy(part), WEFT_SUCCESS);
}

}  // namespace
}  // namespace weft::test::group_sequence_test
