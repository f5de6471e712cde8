#include "trainer/progress.h"

#include <string>

#include <gtest/gtest.h>

#include "trainer/plan.h"

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

TEST(Printable, LeavesCharactersOfAnyLanguage) {
  for (const std::string text :
       {"int x;\n\t{}", "Съешь ещё", "快速的棕色狐狸", "naïve – “x”", "🦊 é"})
    EXPECT_EQ(Printable(text), text);
  EXPECT_EQ(Printable(""), "");
}

TEST(Printable, HasAQuestionMarkForWhatIsNoneOrWouldUpsetATerminal) {
  EXPECT_EQ(Printable("\x1b[2J\a\r\x7f"), "?[2J???");
  EXPECT_EQ(Printable("\xc2\x9b"), "??");       // a control sequence in one character
  EXPECT_EQ(Printable("\xe2\x80\xae"), "???");  // text from right to left
  EXPECT_EQ(Printable("\xff\xfe"), "??");
  EXPECT_EQ(Printable("\xc0\xaf\xe0\x80\xaf"), "?????");  // longer than need be
  EXPECT_EQ(Printable("\xed\xa0\x80"), "???");            // half of a pair of UTF-16
  EXPECT_EQ(Printable("\xf4\x90\x80\x80"), "????");       // beyond the last character
  // A sample is cut anywhere.
  const std::string word = "ещё";
  EXPECT_EQ(Printable(word.substr(1)), "?щё");
  EXPECT_EQ(Printable(word.substr(0, 5)), "ещ?");
  EXPECT_EQ(Printable("🦊").substr(0, 4), "🦊");
  EXPECT_EQ(Printable(std::string("🦊").substr(0, 3) + "x"), "???x");
}

TEST(FormatBytes, HasThreeDigitsOrMoreAndAUnit) {
  EXPECT_EQ(FormatBytes(999), "999 bytes");
  EXPECT_EQ(FormatBytes(1000), "1.0 kB");
  EXPECT_EQ(FormatBytes(10'910'000), "10.91 MB");
  EXPECT_EQ(FormatBytes(824'600'000'000), "824.60 GB");
  EXPECT_EQ(FormatBytes(UINT64_MAX), "18.45 EB");
}

}  // namespace
}  // namespace weft::trainer::progress_test
