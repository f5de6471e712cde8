#include "bench/weft_perf/traffic.h"

#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

namespace weft::perf::traffic_test {
namespace {

using ::testing::HasSubstr;

using Variables = std::map<std::string, std::string>;

Lookup In(const Variables& variables) {
  return [&variables](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

Traffic WithSpread(const char* spread) {
  Traffic traffic;
  const Variables variables = {{"NCCL_TESTS_ALLTOALLV_SPREAD", spread}};
  EXPECT_TRUE(Traffic::FromEnvironment(In(variables), &traffic).ok());
  return traffic;
}

std::vector<size_t> Sent(const Traffic& traffic, int from, int ranks, size_t total) {
  std::vector<size_t> bytes;
  bytes.reserve(static_cast<size_t>(ranks));
  for (int to = 0; to < ranks; ++to)
    bytes.push_back(traffic.Bytes(from, to, ranks, total));
  return bytes;
}

TEST(Traffic, FarRanksGetMore) {
  const Traffic traffic;
  EXPECT_EQ(Sent(traffic, 0, 4, 960), (std::vector<size_t>{0, 160, 320, 480}));
  EXPECT_EQ(Sent(traffic, 2, 4, 960), (std::vector<size_t>{320, 480, 0, 160}));
}

TEST(Traffic, SpreadMixesEqualSharesWithDistance) {
  EXPECT_EQ(Sent(WithSpread("0"), 1, 4, 960), (std::vector<size_t>{240, 240, 240, 240}));
  EXPECT_EQ(Sent(WithSpread("0.5"), 0, 4, 960), (std::vector<size_t>{112, 192, 272, 352}));
  // Out of range is cut, what is no number is ignored.
  EXPECT_EQ(Sent(WithSpread("-3"), 0, 4, 960), Sent(WithSpread("0"), 0, 4, 960));
  EXPECT_EQ(Sent(WithSpread("7"), 0, 4, 960), Sent(Traffic(), 0, 4, 960));
  EXPECT_EQ(Sent(WithSpread("0.1x"), 0, 4, 960), Sent(Traffic(), 0, 4, 960));
  EXPECT_EQ(Sent(WithSpread("nan"), 0, 4, 960), Sent(Traffic(), 0, 4, 960));
}

TEST(Traffic, WhatRanksSendIsWhatTheyReceive) {
  constexpr size_t kTotal = 16000;
  for (const char* spread : {"0", "0.3", "1"}) {
    const Traffic traffic = WithSpread(spread);
    for (const int ranks : {1, 2, 3, 7}) {
      size_t sent = 0;
      size_t received = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const Traffic::Amount amount = traffic.Of(rank, ranks, kTotal);
        EXPECT_LE(amount.send_bytes, kTotal);
        EXPECT_EQ(amount.send_bytes, traffic.LargestOf(ranks, kTotal).send_bytes);
        sent += amount.send_bytes;
        received += amount.recv_bytes;
      }
      EXPECT_EQ(sent, received);
    }
  }
}

TEST(Traffic, AMatrixIsScaledAndRoundedDown) {
  Traffic traffic;
  ASSERT_TRUE(
      Traffic::FromMatrix("100 200\t150\n\n 50 100 75 \n300 1e2 200.9", "m", 2, &traffic).ok());
  EXPECT_TRUE(traffic.from_matrix());
  EXPECT_EQ(Sent(traffic, 0, 3, 0), (std::vector<size_t>{192, 400, 288}));
  EXPECT_EQ(Sent(traffic, 2, 3, 0), (std::vector<size_t>{592, 192, 400}));
  // Fewer ranks use its corner.
  EXPECT_EQ(Sent(traffic, 1, 2, 0), (std::vector<size_t>{96, 192}));
  EXPECT_EQ(traffic.LargestOf(3, 0).send_bytes, 592u + 192 + 400);
  EXPECT_EQ(traffic.LargestOf(3, 0).recv_bytes, 192u + 96 + 592);
}

TEST(Traffic, BadMatricesAreNamed) {
  const struct {
    const char* text;
    const char* says;
  } cases[] = {{"", "holds no numbers"},
               {" \n \t\n", "holds no numbers"},
               {"1 2\n3", "1 numbers in row 2 and 2 in the first"},
               {"1 2\n3 4\n5 6\n", "3 rows and 2 columns"},
               {"1 2\n3 x\n", "\"x\" in row 2, column 2"},
               {"1,2\n3,4\n", "\"1,2\" in row 1, column 1"},
               {"1 -2\n3 4\n", "\"-2\" in row 1, column 2"},
               {"1 nan\n3 4\n", "\"nan\""},
               {"inf 1\n3 4\n", "\"inf\""},
               {"1e300 1\n3 4\n", "\"1e300\""}};

  for (const auto& c : cases) {
    Traffic traffic;
    const Outcome outcome = Traffic::FromMatrix(c.text, "some.txt", 1, &traffic);
    EXPECT_EQ(outcome.code, ExitCode::kInternal) << c.text;
    EXPECT_THAT(outcome.message, HasSubstr("NCCL_TESTS_ALLTOALLV_MATRIX_FILE=some.txt"));
    EXPECT_THAT(outcome.message, HasSubstr(c.says));
    EXPECT_FALSE(traffic.from_matrix());
  }
}

TEST(Traffic, FilesThatCannotBeReadAreNamed) {
  for (const std::string& path : {::testing::TempDir(), ::testing::TempDir() + "/no/matrix"}) {
    Traffic traffic;
    const Variables variables = {{"NCCL_TESTS_ALLTOALLV_MATRIX_FILE", path}};
    const Outcome outcome = Traffic::FromEnvironment(In(variables), &traffic);
    EXPECT_EQ(outcome.code, ExitCode::kInternal);
    EXPECT_THAT(outcome.message, HasSubstr(path));
  }
}

TEST(Traffic, WhatIsNoRegularFileIsNotWaitedFor) {
  const std::string fifo = ::testing::TempDir() + "weft_perf_fifo" + std::to_string(getpid());
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  for (const std::string& path : {fifo, std::string("/dev/zero"), ::testing::TempDir()}) {
    Traffic traffic;
    const Variables variables = {{"NCCL_TESTS_ALLTOALLV_MATRIX_FILE", path}};
    const Outcome outcome = Traffic::FromEnvironment(In(variables), &traffic);
    EXPECT_EQ(outcome.code, ExitCode::kInternal);
    EXPECT_THAT(outcome.message, HasSubstr(path + " is not a regular file"));
  }
  std::remove(fifo.c_str());
}

TEST(Traffic, AFileWithoutEndIsCutShort) {
  const std::string path = ::testing::TempDir() + "weft_perf_large" + std::to_string(getpid());
  std::FILE* file = std::fopen(path.c_str(), "w");
  ASSERT_NE(file, nullptr);
  ASSERT_EQ(ftruncate(fileno(file), off_t{1} << 40), 0);
  std::fclose(file);
  Traffic traffic;
  const Variables variables = {{"NCCL_TESTS_ALLTOALLV_MATRIX_FILE", path}};
  const Outcome outcome = Traffic::FromEnvironment(In(variables), &traffic);
  std::remove(path.c_str());
  EXPECT_EQ(outcome.code, ExitCode::kInternal);
  EXPECT_THAT(outcome.message, HasSubstr("has more than"));
}

TEST(Traffic, AFileOfTheEnvironmentIsScaled) {
  const std::string path = ::testing::TempDir() + "weft_perf_matrix.txt";
  std::FILE* file = std::fopen(path.c_str(), "w");
  ASSERT_NE(file, nullptr);
  std::fputs("16 32\n48 64\n", file);
  std::fclose(file);
  Traffic traffic;
  const Variables variables = {{"NCCL_TESTS_ALLTOALLV_MATRIX_FILE", path},
                               {"NCCL_TESTS_ALLTOALLV_MATRIX_SCALE", "10"},
                               {"NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY", "1"}};
  ASSERT_TRUE(Traffic::FromEnvironment(In(variables), &traffic).ok());
  std::remove(path.c_str());
  EXPECT_EQ(Sent(traffic, 1, 2, 0), (std::vector<size_t>{480, 640}));
  EXPECT_TRUE(traffic.print_summary());
  EXPECT_EQ(traffic.SummaryText(2, 0, 1e-6),
            "# NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY: mode=matrix nranks=2 matrix_dim=2 scale=10.000 "
            "time_usec=1.00\n"
            "#   rank=0 send_bytes=480 recv_bytes=640 alg_bw=0.64 bus_bw=0.32\n"
            "#   rank=1 send_bytes=1120 recv_bytes=960 alg_bw=1.12 bus_bw=0.56\n");
}

TEST(Traffic, AMatrixMustFitTheRun) {
  Traffic traffic;
  ASSERT_TRUE(Traffic::FromMatrix("16 32\n48 64\n", "m", 1, &traffic).ok());
  EXPECT_TRUE(traffic.Check(2, 112, 112).ok());
  EXPECT_TRUE(traffic.Check(1, 112, 112).ok());
  EXPECT_THAT(traffic.Check(3, 112, 112).message, HasSubstr("2 ranks at most, and there are 3"));
  EXPECT_THAT(traffic.Check(2, 112, 224).message, HasSubstr("-b and -e the same"));
  EXPECT_THAT(traffic.Check(2, 96, 96).message, HasSubstr("needs buffers of 112 bytes"));
  EXPECT_TRUE(Traffic().Check(3, 1, 2).ok());
}

}  // namespace
}  // namespace weft::perf::traffic_test
