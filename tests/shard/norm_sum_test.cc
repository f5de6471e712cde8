// Norms of ranks' parts added over a group: the exact sum in any order, loss scales that differ, other
// calls beside it.
#include "shard/optimizer/norm_sum.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shard/optimizer/gradient_norm.h"
#include "tests/comm/kernels/reference.h"
#include "tests/shard/ranks.h"

namespace weft::norm_sum_test {
namespace {

using testing::HasSubstr;

// As weft_shard_gradient_norm writes it; some elements of every third rank are not finite.
weft_shard_norm_t RandomNorm(std::mt19937_64& random, int rank, double loss_scale) {
  ExactSum sum;
  std::uniform_real_distribution<double> mantissa(0, 1);
  for (int i = 0; i < 50; ++i)
    sum.Add(std::ldexp(mantissa(random), static_cast<int>(random() % 600) - 300));
  const int64_t nonfinite = rank % 3 == 2 ? 1 + static_cast<int64_t>(random() % 5) : 0;
  if (nonfinite > 0) sum.Add(std::numeric_limits<double>::infinity());
  const ExactSum::Words squares = sum.words();
  std::vector<int64_t> words(squares.begin(), squares.end());
  words.push_back(nonfinite);
  return NormOf(words, loss_scale);
}

TEST(NormSum, IsTheSumOneByOneForAnyNumberOfRanks) {
  SCOPED_TRACE(StrCat("seed ", TestSeed()));
  for (const int ranks : kRankSet) {
    std::mt19937_64 random(TestSeed());
    std::vector<weft_shard_norm_t> norms;
    for (int rank = 0; rank < ranks; ++rank)
      norms.push_back(RandomNorm(random, rank, 8));
    weft_shard_norm_t sum = norms.back();
    for (size_t i = norms.size() - 1; i > 0; --i)
      ASSERT_TRUE(AddNorm(norms[i - 1], &sum).ok());
    // A program may have moved a carry by adding words itself.
    norms[0].squares[3] += int64_t{1} << 32;
    norms[0].squares[4] -= 1;
    ExpectAllOk(
        RunRanks(GroupKind::kLocal, ranks,
                 [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
                   const weft_shard_norm_t& own = norms[static_cast<size_t>(rank)];
                   WEFT_ASSIGN_OR_RETURN(const weft_shard_norm_t found, SumNorms(*group, own));
                   EXPECT_EQ(std::memcmp(found.squares, sum.squares, sizeof(sum.squares)), 0);
                   EXPECT_EQ(std::memcmp(&found.norm, &sum.norm, sizeof(sum.norm)), 0);
                   EXPECT_EQ(found.nonfinite, sum.nonfinite);
                   EXPECT_EQ(found.loss_scale, 8);
                   return absl::OkStatus();
                 }));
  }
}

TEST(NormSum, NamesTheRankOfAnotherLossScaleOnAllRanksAndTheGroupGoesOn) {
  for (const int ranks : {2, 3, 5, 8}) {
    SCOPED_TRACE(StrCat(ranks, " ranks"));
    const int other = ranks - 1;
    ExpectAllOk(RunRanks(
        GroupKind::kLocal, ranks,
        [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
          std::mt19937_64 random(1);
          const weft_shard_norm_t good = RandomNorm(random, 0, 1024);
          weft_shard_norm_t own = good;
          own.loss_scale = rank == other ? 512 : 1024;
          for (int again = 0; again < 2; ++again) {
            const absl::Status failure = SumNorms(*group, own).status();
            EXPECT_EQ(ResultOf(failure), WEFT_MISMATCH);
            const std::string sentence(failure.message());
            EXPECT_THAT(sentence, HasSubstr("shard_norm_sum on group"));
            EXPECT_THAT(sentence, HasSubstr(StrCat("rank ", other, " have loss scale 512")));
            EXPECT_THAT(sentence, HasSubstr("have 1024"));
          }
          WEFT_ASSIGN_OR_RETURN(const weft_shard_norm_t sum, SumNorms(*group, good));
          EXPECT_GT(sum.norm, good.norm);
          return absl::OkStatus();
        }));
  }
}

// Refused before anything is sent, so that the call can be made again as it should be.
TEST(NormSum, WhatIsNoNormIsRefused) {
  ExpectAllOk(
      RunRanks(GroupKind::kLocal, 2, [](int, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        const weft_shard_norm_t empty{};
        const absl::Status failure = SumNorms(*group, empty).status();
        EXPECT_EQ(ResultOf(failure), WEFT_INVALID_ARGUMENT);
        EXPECT_THAT(std::string(failure.message()), HasSubstr("loss_scale 0"));
        EXPECT_EQ(group->sequence(), 0u);
        return absl::OkStatus();
      }));
}

// As long as the call's own words.
TEST(NormSum, AnotherCallOfOneRankIsAMismatch) {
  for (const absl::Status& end :
       RunRanks(GroupKind::kLocal, 2, [](int rank, std::shared_ptr<ProcessGroup> group) {
         std::mt19937_64 random(1);
         if (rank == 0) return SumNorms(*group, RandomNorm(random, 0, 1)).status();
         std::vector<int64_t> words(WEFT_SHARD_NORM_WORDS + 2);
         return group->Run({.kind = OpKind::kAllReduce,
                            .dtype = WEFT_INT64,
                            .op = WEFT_SUM,
                            .count = words.size(),
                            .in = words.data(),
                            .out = words.data()});
       })) {
    EXPECT_EQ(ResultOf(end), WEFT_MISMATCH);
    EXPECT_THAT(std::string(end.message()), HasSubstr("shard_norm_sum"));
    EXPECT_THAT(std::string(end.message()), HasSubstr("all_reduce"));
  }
}

}  // namespace
}  // namespace weft::norm_sum_test
