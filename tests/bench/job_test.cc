// The check of a measured operation: does it see what an operation can do wrong?
#include "bench/weft_perf/job.h"

#include <tuple>

#include <gtest/gtest.h>

#include "weft/collective.h"

namespace weft::perf {
namespace {

constexpr size_t kBytes = 3000;
constexpr uint64_t kSeed = 5;

// Rank 1 of 3, whose buffers hold what a right operation leaves.
class JobCheck : public ::testing::TestWithParam<std::tuple<const char*, bool>> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(send_.Allocate(kBytes, 64, false).ok());
    ASSERT_TRUE(recv_.Allocate(kBytes, 64, false).ok());
    job_.operation = FindOperation(std::get<0>(GetParam()));
    job_.type = FindElementType("float");
    job_.reduction = job_.operation->reduces ? FindReduction("sum") : nullptr;
    job_.root = 1;
    job_.rank = 1;
    job_.ranks = 3;
    job_.in_place = std::get<1>(GetParam());
    job_.extent = ExtentOf(*job_.operation, kBytes, 4, 3);
    job_.send = &send_;
    job_.recv = &recv_;
    job_.offset = 4;
    job_.Prepare(kSeed);
    Operate();
  }

  // What the operation has to do, by hand.
  void Operate() {
    const DataKey key{job_.type, job_.reduction, 3, kSeed};
    unsigned char* out = job_.recv_data(0);
    switch (job_.operation->kind) {
      case OperationKind::kAllReduce:
      case OperationKind::kReduce:
        Pattern::Reduced(key).Fill(out, 0, job_.extent.count);
        break;
      case OperationKind::kReduceScatter:
        Pattern::Reduced(key).Fill(out, job_.extent.count, job_.extent.count);
        break;
      case OperationKind::kBroadcast:
        Pattern::Input(key, 1).Fill(out, 0, job_.extent.count);
        break;
      default:
        for (size_t from = 0; from < 3; ++from) {
          Pattern::Input(key, static_cast<int>(from))
              .Fill(out + from * job_.extent.send_bytes, 0, job_.extent.count);
        }
    }
  }

  Buffer send_;
  Buffer recv_;
  Job job_;
};

TEST_P(JobCheck, ARightResultHasNothingWrong) {
  EXPECT_EQ(job_.CountWrong(kSeed), 0u);
}

TEST_P(JobCheck, OneCorruptElementIsOneWrong) {
  job_.recv_data(0)[job_.extent.recv_bytes - 4] ^= 1;
  EXPECT_EQ(job_.CountWrong(kSeed), 1u);
}

TEST_P(JobCheck, AnOperationThatDidNothingIsWrong) {
  job_.Prepare(kSeed);
  const bool broadcast_in_place =
      job_.operation->kind == OperationKind::kBroadcast && job_.in_place;
  // The root of a broadcast in place has nothing to do.
  if (broadcast_in_place) job_.root = 0;
  EXPECT_GT(job_.CountWrong(kSeed), job_.extent.count / 2);
}

TEST_P(JobCheck, ResultsOfAnEarlierCheckAreWrong) {
  EXPECT_GT(job_.CountWrong(kSeed + 1), job_.extent.count / 2);
}

TEST_P(JobCheck, WritingBesideTheBuffersIsWrong) {
  const size_t region = job_.in_place ? job_.extent.bytes() : job_.extent.recv_bytes;
  recv_.data()[job_.offset - 1] ^= 1;
  recv_.data()[job_.offset + region] ^= 1;
  EXPECT_EQ(job_.CountWrong(kSeed), 2u);
}

TEST_P(JobCheck, AChangedInputIsWrong) {
  if (job_.in_place && job_.operation->kind != OperationKind::kReduceScatter) return;
  job_.send_data(0)[0] ^= 1;
  EXPECT_EQ(job_.CountWrong(kSeed), 1u);
}

INSTANTIATE_TEST_SUITE_P(All, JobCheck,
                         ::testing::Combine(::testing::Values("all_reduce", "reduce", "broadcast",
                                                              "all_gather", "reduce_scatter"),
                                            ::testing::Bool()));

TEST(Job, OnlyTheRootOfAReduceGetsAResult) {
  Buffer send;
  Buffer recv;
  ASSERT_TRUE(send.Allocate(kBytes, 64, false).ok());
  ASSERT_TRUE(recv.Allocate(kBytes, 64, false).ok());
  Job job;
  job.operation = FindOperation("reduce");
  job.type = FindElementType("int8");
  job.reduction = FindReduction("max");
  job.rank = 1;
  job.ranks = 2;
  job.extent = ExtentOf(*job.operation, kBytes, 1, 2);
  job.send = &send;
  job.recv = &recv;
  job.Prepare(kSeed);
  EXPECT_EQ(job.CountWrong(kSeed), 0u);
  job.recv_data(0)[7] ^= 1;
  EXPECT_EQ(job.CountWrong(kSeed), 1u);
}

TEST(Job, ACorruptContributionShowsAfterTheLibraryReducedIt) {
  weft_group_t group = nullptr;
  ASSERT_EQ(weft_group_create_local(1, nullptr, &group), WEFT_SUCCESS);
  Buffer send;
  Buffer recv;
  ASSERT_TRUE(send.Allocate(kBytes, 64, true).ok());
  ASSERT_TRUE(recv.Allocate(kBytes, 64, true).ok());
  Job job;
  job.operation = FindOperation("all_reduce");
  job.type = FindElementType("double");
  job.reduction = FindReduction("sum");
  job.extent = ExtentOf(*job.operation, kBytes, 8, 1);
  job.send = &send;
  job.recv = &recv;
  job.Prepare(kSeed);
  ASSERT_EQ(job.Start(group, nullptr, 0, nullptr), WEFT_SUCCESS);
  EXPECT_EQ(job.CountWrong(kSeed), 0u);
  job.Prepare(kSeed);
  job.send_data(0)[8] ^= 1;
  ASSERT_EQ(job.Start(group, nullptr, 0, nullptr), WEFT_SUCCESS);
  EXPECT_EQ(job.CountWrong(kSeed), 2u);  // the input and the output
  weft_group_destroy(group);
}

}  // namespace
}  // namespace weft::perf
