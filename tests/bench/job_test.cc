// The check of a measured operation: does it see what an operation can do wrong?
#include "bench/weft_perf/job.h"

#include <tuple>

#include <gtest/gtest.h>

#include "weft/collective.h"

namespace weft::perf::job_test {
namespace {

constexpr size_t kBytes = 3000;
constexpr uint64_t kSeed = 5;

// Rank 1 of 3, whose buffers hold what a right operation leaves.
class JobCheck : public ::testing::TestWithParam<std::tuple<const char*, bool>> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(send_.Allocate(kBytes, 64, Memory::kPrivate).ok());
    ASSERT_TRUE(recv_.Allocate(kBytes, 64, Memory::kPrivate).ok());
    job_.operation = FindOperation(std::get<0>(GetParam()));
    job_.type = FindElementType("float");
    job_.reduction = job_.operation->reduces ? FindReduction("sum") : nullptr;
    job_.root = 1;
    job_.rank = 1;
    job_.ranks = 3;
    job_.in_place = std::get<1>(GetParam());
    job_.traffic = &traffic_;
    job_.SetSize(kBytes);
    job_.send = &send_;
    job_.recv = &recv_;
    job_.offset = 4;
    job_.Prepare(kSeed);
    Operate();
  }

  // What the operation has to do, by hand. The root is rank 1 itself.
  void Operate() {
    const size_t count = job_.extent.count;
    const DataKey key = job_.Key(kSeed);
    unsigned char* out = job_.recv_data(0);
    // Block `block` of `from`'s input becomes block `from` of the output.
    const auto take = [&](int from, size_t block) {
      Pattern::Input(key, from).Fill(out + static_cast<size_t>(from) * count * 4, block * count,
                                     count);
    };
    switch (job_.operation->kind) {
      case OperationKind::kAllReduce:
      case OperationKind::kReduce:
      case OperationKind::kScan:
      case OperationKind::kExscan:
        Pattern::Reduced(key).Fill(out, 0, count);
        break;
      case OperationKind::kReduceScatter:
        Pattern::Reduced(key).Fill(out, count, count);
        break;
      case OperationKind::kBroadcast:
        Pattern::Input(key, 1).Fill(out, 0, count);
        break;
      case OperationKind::kScatter:
        Pattern::Input(key, 1).Fill(out, count, count);
        break;
      case OperationKind::kSendRecv:
        Pattern::Input(key, 0).Fill(out, 0, count);
        break;
      case OperationKind::kAllToAll:
        for (int from = 0; from < 3; ++from)
          take(from, 1);
        break;
      case OperationKind::kAllToAllV:
        // Each rank sends nothing to itself, one count to the next rank, two to the one after it.
        Pattern::Input(key, 0).Fill(out, 0, count);
        Pattern::Input(key, 2).Fill(out + count * 4, count, 2 * count);
        break;
      default:
        for (int from = 0; from < 3; ++from)
          take(from, 0);
    }
  }

  Buffer send_;
  Buffer recv_;
  Traffic traffic_;
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
  // The root of a broadcast or scatter in place has nothing to do.
  const OperationKind kind = job_.operation->kind;
  const bool from_root = kind == OperationKind::kBroadcast || kind == OperationKind::kScatter;
  if (from_root && job_.in_place) job_.root = 0;
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
  // In place it may be a part of the output by now; it is one wrong element in either case.
  job_.send_data(0)[0] ^= 1;
  EXPECT_EQ(job_.CountWrong(kSeed), 1u);
}

INSTANTIATE_TEST_SUITE_P(All, JobCheck,
                         ::testing::Combine(::testing::Values("all_reduce", "reduce", "broadcast",
                                                              "all_gather", "reduce_scatter",
                                                              "alltoall", "gather", "scatter",
                                                              "hypercube", "scan", "exscan"),
                                            ::testing::Bool()));

INSTANTIATE_TEST_SUITE_P(NotInPlace, JobCheck,
                         ::testing::Combine(::testing::Values("alltoallv", "sendrecv"),
                                            ::testing::Values(false)));

TEST(Job, OnlyTheRootOfAReduceGetsAResult) {
  Buffer send;
  Buffer recv;
  ASSERT_TRUE(send.Allocate(kBytes, 64, Memory::kPrivate).ok());
  ASSERT_TRUE(recv.Allocate(kBytes, 64, Memory::kPrivate).ok());
  Job job;
  job.operation = FindOperation("reduce");
  job.type = FindElementType("int8");
  job.reduction = FindReduction("max");
  job.rank = 1;
  job.ranks = 2;
  job.SetSize(kBytes);
  job.send = &send;
  job.recv = &recv;
  job.Prepare(kSeed);
  EXPECT_EQ(job.CountWrong(kSeed), 0u);
  job.recv_data(0)[7] ^= 1;
  EXPECT_EQ(job.CountWrong(kSeed), 1u);
}

TEST(Job, OnlyTheRootOfAGatherGetsAResult) {
  for (const bool in_place : {false, true}) {
    Buffer send;
    Buffer recv;
    ASSERT_TRUE(send.Allocate(kBytes, 64, Memory::kPrivate).ok());
    ASSERT_TRUE(recv.Allocate(kBytes, 64, Memory::kPrivate).ok());
    Job job;
    job.operation = FindOperation("gather");
    job.type = FindElementType("half");
    job.rank = 1;
    job.ranks = 3;
    job.in_place = in_place;
    job.send = &send;
    job.recv = &recv;
    job.SetSize(kBytes);
    job.Prepare(kSeed);
    EXPECT_TRUE(job.Result().empty());
    EXPECT_EQ(job.CountWrong(kSeed), 0u);
    recv.data()[job.extent.recv_bytes - 1] ^= 1;
    recv.data()[0] ^= 1;
    EXPECT_EQ(job.CountWrong(kSeed), 2u);
  }
}

// What a rank gets in the blocks of a small operation is the beginning of what it gets in a large one.
TEST(Job, BlocksBeginWithTheSameElementsAtEverySize) {
  for (const char* name : {"reduce_scatter", "alltoall", "alltoallv", "scatter", "all_reduce"}) {
    const Traffic traffic;
    Buffer send;
    Buffer recv;
    ASSERT_TRUE(send.Allocate(kBytes, 64, Memory::kPrivate).ok());
    ASSERT_TRUE(recv.Allocate(kBytes, 64, Memory::kPrivate).ok());
    Job job;
    job.operation = FindOperation(name);
    job.type = FindElementType("float");
    job.rank = 1;
    job.ranks = 3;
    job.send = &send;
    job.recv = &recv;
    job.traffic = &traffic;
    const DataKey key{job.type, nullptr, 3, kSeed};
    const Pattern input = Pattern::OrderSensitive(key, job.rank);
    // The first bytes that go to rank 2.
    const auto first_of_last_block = [&](size_t bytes) {
      job.SetSize(bytes);
      job.PrepareBlocks(input);
      const size_t packed = job.operation->layout == Layout::kWhole ? 0 : 2 * job.extent.count;
      const size_t at = job.blocks.in_counts.empty() ? packed : job.blocks.in_displacements[2];
      const unsigned char* block = job.send_data(0) + at * 4;
      return std::vector<unsigned char>(block, block + 64);
    };
    EXPECT_EQ(first_of_last_block(600), first_of_last_block(kBytes)) << name;
    EXPECT_EQ(job.CountChangedCanariesAround(), 0u);
  }
}

TEST(Job, ACorruptContributionShowsAfterTheLibraryReducedIt) {
  weft_group_t group = nullptr;
  ASSERT_EQ(weft_group_create_local(1, nullptr, &group), WEFT_SUCCESS);
  Buffer send;
  Buffer recv;
  ASSERT_TRUE(send.Allocate(kBytes, 64, Memory::kSymmetric).ok());
  ASSERT_TRUE(recv.Allocate(kBytes, 64, Memory::kSymmetric).ok());
  Job job;
  job.operation = FindOperation("all_reduce");
  job.type = FindElementType("double");
  job.reduction = FindReduction("sum");
  job.SetSize(kBytes);
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
}  // namespace weft::perf::job_test
