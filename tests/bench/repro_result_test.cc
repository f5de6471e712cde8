#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/weft_perf/repro.h"

namespace weft::perf::repro_result_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::span<const unsigned char> Bytes(const std::string& text) {
  return {reinterpret_cast<const unsigned char*>(text.data()), text.size()};
}

ReproResult Some(size_t bytes, const char* hash, const char* isa = "avx2") {
  ReproResult result;
  result.operation = "all_reduce";
  result.type = "float";
  result.reduction = "sum";
  result.ranks = 4;
  result.bytes = bytes;
  result.count = bytes / 4;
  result.ranks_are = "threads";
  result.isa = isa;
  result.algorithm = "auto";
  result.memory = "private";
  result.hash = hash;
  result.prefix_hash = "1111";
  return result;
}

TEST(ReproHash, IsSha256) {
  const std::string text = "abc";
  const std::vector<std::span<const unsigned char>> one = {Bytes(text)};
  EXPECT_EQ(HashText(one), "ba7816bf8f01cfea");
  EXPECT_EQ(HashText({}), "e3b0c44298fc1c14");
}

TEST(ReproHash, RunsAreOneText) {
  const std::string left = "ab";
  const std::string right = "c";
  const std::vector<std::span<const unsigned char>> runs = {Bytes(left), {}, Bytes(right)};
  EXPECT_EQ(HashText(runs), "ba7816bf8f01cfea");
}

TEST(ReproHash, RanksMustAgreeWhereTheResultIsTheSame) {
  bool agree = true;
  EXPECT_EQ(HashOfRanks({"aa", "aa"}, true, &agree), "aa");
  EXPECT_TRUE(agree);
  const std::string differ = HashOfRanks({"aa", "ab"}, true, &agree);
  EXPECT_FALSE(agree);
  EXPECT_NE(differ, "aa");
  // A rank without a result does not agree either.
  agree = true;
  EXPECT_NE(HashOfRanks({"aa", ""}, true, &agree), "aa");
  EXPECT_FALSE(agree);
}

TEST(ReproHash, OtherwiseEveryRankCounts) {
  bool agree = true;
  const std::string both = HashOfRanks({"aa", "ab"}, false, &agree);
  EXPECT_NE(both, HashOfRanks({"ab", "aa"}, false, &agree));
  EXPECT_NE(both, HashOfRanks({"aa", ""}, false, &agree));
  EXPECT_EQ(HashOfRanks({"", "aa"}, false, &agree), HashOfRanks({"", "aa"}, false, &agree));
  EXPECT_TRUE(agree);
}

TEST(ReproSummary, OneHashForEachSizeIsFine) {
  ReproSummary summary;
  for (const char* isa : {"scalar", "avx2"}) {
    summary.Add(Some(8, "1111", isa));
    summary.Add(Some(64, "2222", isa));
  }
  EXPECT_TRUE(summary.ok());
  EXPECT_EQ(summary.distinct(), 1u);
  EXPECT_THAT(summary.Text(), HasSubstr("# Reproducibility: 4 results, 1 distinct hashes per "
                                        "(operation,type,op,size,ranks): OK\n"));
  EXPECT_THAT(summary.Text(), HasSubstr("          64            16     float     sum      -1  "
                                        "            2222              1111        2         1\n"));
  EXPECT_THAT(summary.Text(), Not(HasSubstr("differs")));
}

TEST(ReproSummary, AnotherHashOfOneSizeFails) {
  ReproSummary summary;
  summary.Add(Some(8, "1111", "avx2"));
  summary.Add(Some(8, "9999", "scalar"));
  EXPECT_FALSE(summary.ok());
  EXPECT_EQ(summary.distinct(), 2u);
  EXPECT_THAT(summary.Text(), HasSubstr("# differs: whole of 8 bytes float sum: 9999 in 1 result, "
                                        "first threads scalar auto private out-of-place blocking"));
  EXPECT_THAT(summary.Text(), HasSubstr("2 distinct hashes"));
  EXPECT_THAT(summary.Text(), HasSubstr(": FAILED\n"));
}

TEST(ReproSummary, AnotherBeginningOfALargerSizeFails) {
  ReproSummary summary;
  summary.Add(Some(8, "1111"));
  ReproResult large = Some(64, "2222");
  large.prefix_hash = "3333";
  summary.Add(large);
  EXPECT_FALSE(summary.ok());
  EXPECT_THAT(summary.Text(), HasSubstr("# differs: beginning of 64 bytes"));
}

TEST(ReproSummary, OtherTypesReductionsRootsAndRanksAreNotCompared) {
  ReproSummary summary;
  summary.Add(Some(8, "1111"));
  for (int i = 0; i < 4; ++i) {
    ReproResult other = Some(8, "4444");
    other.prefix_hash = "4444";
    if (i == 0) other.type = "half";
    if (i == 1) other.reduction = "max";
    if (i == 2) other.root = 1;
    if (i == 3) other.ranks = 3;
    summary.Add(other);
  }
  EXPECT_TRUE(summary.ok());
}

TEST(ReproSummary, RanksThatDifferAndStrayBytesFail) {
  for (const bool stray : {false, true}) {
    ReproSummary summary;
    ReproResult result = Some(8, "1111");
    result.ranks_agree = stray;
    result.stray_bytes = stray ? 3 : 0;
    summary.Add(result);
    EXPECT_FALSE(summary.ok());
    EXPECT_THAT(summary.Text(), HasSubstr(stray ? "beside the buffers" : "ranks differ"));
    EXPECT_THAT(summary.Text(), HasSubstr("1 distinct"));
    EXPECT_THAT(summary.Text(), HasSubstr("FAILED"));
  }
}

TEST(ReproSummary, ManyFaultsAreCutShort) {
  ReproSummary summary;
  for (int i = 0; i < 25; ++i) {
    ReproResult result = Some(8, "1111");
    result.stray_bytes = 1;
    summary.Add(result);
  }
  EXPECT_THAT(summary.Text(), HasSubstr("# and 5 more\n"));
}

TEST(ReproSummary, LinesCarryEverything) {
  ReproResult result = Some(1000, "0123456789abcdef", "avx512");
  result.root = 2;
  result.in_place = true;
  result.blocking = false;
  result.ranks_agree = false;
  result.stray_bytes = 7;
  ReproSummary summary;
  ASSERT_TRUE(summary.AddLine(ReproLine(result)));
  ASSERT_EQ(summary.results().size(), 1u);
  const ReproResult& read = summary.results()[0];
  EXPECT_EQ(ReproLine(read), ReproLine(result));
  EXPECT_EQ(read.Way(), "threads avx512 auto private in-place asynchronous");
  EXPECT_EQ(read.root, 2);
  EXPECT_EQ(read.stray_bytes, 7u);
  for (const char* other : {"", "# text\n", "repro", "repro {", "repro [1]\n", "x repro {}\n"}) {
    EXPECT_FALSE(summary.AddLine(other)) << other;
  }
}

TEST(ReproSummary, SkippedAlgorithmsAreCountedWithTheFirstReason) {
  ReproSummary summary;
  ASSERT_TRUE(summary.AddLine(ReproLine(ReproSkip{"slot", 2, "too \"large\" \xff"})));
  ASSERT_TRUE(summary.AddLine(ReproLine(ReproSkip{"slot", 3, "other"})));
  summary.Add(ReproSkip{"direct", 1, "private"});
  EXPECT_THAT(summary.Text(), HasSubstr("# Skipped: algorithm slot, 5 calls: too \"large\""));
  EXPECT_THAT(summary.Text(), HasSubstr("# Skipped: algorithm direct, 1 calls: private\n"));
  EXPECT_TRUE(summary.ok());
}

}  // namespace
}  // namespace weft::perf::repro_result_test
