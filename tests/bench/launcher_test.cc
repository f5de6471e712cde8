#include "bench/weft_perf/launcher.h"

#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weft::perf::launcher_test {
namespace {

using ::testing::HasSubstr;

using Variables = std::map<std::string, std::string>;

Lookup In(const Variables& variables) {
  return [&variables](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

TEST(Launcher, NoneSaysNothing) {
  EXPECT_TRUE(LauncherSizes(In({})).empty());
}

TEST(Launcher, OwnRanksInsideAJobAreRefused) {
  Options options;
  options.processes = 2;
  for (const char* variable :
       {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}) {
    const Variables variables = {{variable, "4"}};
    const Outcome outcome = CheckLauncher(LauncherSizes(In(variables)), options);
    EXPECT_EQ(outcome.code, ExitCode::kUsage);
    EXPECT_THAT(outcome.message, HasSubstr(std::string(variable) + "=4"));
    EXPECT_THAT(outcome.message, HasSubstr("--nprocs"));
  }
  EXPECT_TRUE(CheckLauncher(LauncherSizes(In({{"WORLD_SIZE", "1"}})), options).ok());
  options.processes = 0;
  EXPECT_TRUE(CheckLauncher(LauncherSizes(In({{"WORLD_SIZE", "4"}})), options).ok());
  options.threads_as_ranks = true;
  EXPECT_EQ(CheckLauncher(LauncherSizes(In({{"WORLD_SIZE", "4"}})), options).code,
            ExitCode::kUsage);
}

TEST(Launcher, AnotherWorldSizeIsNamed) {
  const Variables variables = {{"WORLD_SIZE", "1"}, {"OMPI_COMM_WORLD_SIZE", "4"}};
  const Outcome outcome = CheckWorldSize(LauncherSizes(In(variables)), 1);
  EXPECT_EQ(outcome.code, ExitCode::kUsage);
  EXPECT_THAT(outcome.message, HasSubstr("1 process found each other"));
  EXPECT_THAT(outcome.message, HasSubstr("OMPI_COMM_WORLD_SIZE=4"));
  EXPECT_TRUE(CheckWorldSize(LauncherSizes(In({{"PMI_SIZE", "3"}})), 3).ok());
}

int Color(const char* split, int process) {
  int color = -1;
  const Variables variables = {{"NCCL_TESTS_SPLIT", split}};
  EXPECT_TRUE(SplitColor(In(variables), process, &color).ok()) << split;
  return color;
}

TEST(Launcher, SplitsColourProcesses) {
  EXPECT_EQ(Color("MOD 3", 7), 1);
  EXPECT_EQ(Color("%3", 7), 1);
  EXPECT_EQ(Color("DIV 4", 7), 1);
  EXPECT_EQ(Color("/ 2", 7), 3);
  EXPECT_EQ(Color("AND 0x6", 7), 6);
  EXPECT_EQ(Color("& 0b101", 7), 5);
  EXPECT_EQ(Color("OR 8", 7), 15);
  EXPECT_EQ(Color("|8", 7), 15);
  EXPECT_EQ(Color("mod 3", 7), 1);
  EXPECT_EQ(Color("And 0B110", 7), 6);
  int color = -1;
  EXPECT_TRUE(SplitColor(In({}), 7, &color).ok());
  EXPECT_EQ(color, 0);
  const Variables mask = {{"NCCL_TESTS_SPLIT_MASK", "3"}};
  EXPECT_TRUE(SplitColor(In(mask), 7, &color).ok());
  EXPECT_EQ(color, 3);
  const Variables both = {{"NCCL_TESTS_SPLIT_MASK", "0x4"}, {"NCCL_TESTS_SPLIT", "MOD 2"}};
  EXPECT_TRUE(SplitColor(In(both), 7, &color).ok());
  EXPECT_EQ(color, 4);
}

TEST(Launcher, BadSplitsAreNamed) {
  for (const char* split : {"", "MOD", "MOD x", "MOD 0", "DIV 0", "XOR 3", "3", "AND -1"}) {
    const Variables variables = {{"NCCL_TESTS_SPLIT", split}};
    int color = -1;
    const Outcome outcome = SplitColor(In(variables), 1, &color);
    EXPECT_EQ(outcome.code, ExitCode::kUsage) << split;
    EXPECT_THAT(outcome.message, HasSubstr("NCCL_TESTS_SPLIT"));
  }
  const Variables mask = {{"NCCL_TESTS_SPLIT_MASK", "MOD 2"}};
  int color = -1;
  EXPECT_EQ(SplitColor(In(mask), 1, &color).code, ExitCode::kUsage);
}

TEST(Launcher, LeastBandwidthIsOff) {
  EXPECT_EQ(LeastBandwidth(In({})), -1);
  const Variables variables = {{"NCCL_TESTS_MIN_BW", "2.5"}};
  EXPECT_EQ(LeastBandwidth(In(variables)), 2.5);
}

}  // namespace
}  // namespace weft::perf::launcher_test
