#include "trainer/progress.h"

#include <gtest/gtest.h>

namespace weft::trainer::progress_test {
namespace {

weft_shard_report_t Times(int slowest_rank, int64_t slowest_ns, int64_t median_ns) {
  weft_shard_report_t report = {};
  report.rank_count = 4;
  report.slowest_rank = slowest_rank;
  report.slowest_busy_ns = slowest_ns;
  report.median_busy_ns = median_ns;
  return report;
}

TEST(DescribeSlowest, NamesARankThatIsATenthAboveTheMedian) {
  EXPECT_EQ(DescribeSlowest(Times(2, 125, 100)), "rank 2 25 % slower");
  EXPECT_EQ(DescribeSlowest(Times(0, 112, 100)), "rank 0 12 % slower");
}

TEST(DescribeSlowest, SaysNothingOtherwise) {
  EXPECT_EQ(DescribeSlowest(Times(2, 110, 100)), "");
  EXPECT_EQ(DescribeSlowest(Times(-1, 0, 0)), "");
  EXPECT_EQ(DescribeSlowest(Times(1, 5, 0)), "");
}

TEST(DescribeBalance, HasTheMostAndTheLeast) {
  RankReports reports;
  reports.summary.rank_count = 3;
  reports.summary.smallest_rank = 2;
  reports.summary.smallest_element_count = 70;
  reports.summary.largest_element_count = 128;
  reports.ranks.resize(3);
  for (size_t r = 0; r < 3; r++) {
    reports.ranks[r].param_bytes = 1000 - 100 * r;
    reports.ranks[r].grad_bytes = 1000;
    reports.ranks[r].optimizer_bytes = 2000;
    reports.ranks[r].pool_bytes = 500;
  }
  EXPECT_EQ(DescribeBalance(reports),
            "ranks  70 (rank 2) to 128 (rank 0) parameters each, 4.3 kB to 4.5 kB of memory\n");
  reports.summary.rank_count = 1;
  EXPECT_EQ(DescribeBalance(reports), "");
}

}  // namespace
}  // namespace weft::trainer::progress_test
