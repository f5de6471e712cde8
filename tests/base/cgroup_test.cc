// Control groups made of files, in both versions: what memory they leave, also when the files make no sense.
#include "base/cgroup.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/status.h"
#include "tests/base/machine_of_files.h"

namespace weft::cgroup_test {
namespace {

using ::testing::HasSubstr;

constexpr size_t kMiB = size_t{1} << 20;

class CgroupTest : public MachineOfFiles {
 protected:
  void WriteBytes(const std::string& path, size_t bytes) {
    Write(path, std::to_string(bytes) + "\n");
  }

  weft_result_t Check(size_t bytes) { return ResultOf(CheckCgroupMemory(root_, bytes)); }
};

TEST_F(CgroupTest, WithoutLimitsEverythingFits) {
  EXPECT_EQ(Check(size_t{1} << 50), WEFT_SUCCESS);
  Write("/proc/self/cgroup", "0::/a\n");
  Write("/sys/fs/cgroup/a/memory.max", "max\n");
  WriteBytes("/sys/fs/cgroup/a/memory.current", 5 * kMiB);
  EXPECT_EQ(Check(size_t{1} << 50), WEFT_SUCCESS);
  Write("/proc/self/cgroup", "4:memory:/a\n");
  Write("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "9223372036854771712\n");
  WriteBytes("/sys/fs/cgroup/memory/a/memory.usage_in_bytes", 5 * kMiB);
  EXPECT_EQ(Check(size_t{1} << 50), WEFT_SUCCESS);
}

TEST_F(CgroupTest, TheTightestGroupOnTheWayUpDecidesAndIsNamed) {
  Write("/proc/self/cgroup", "0::/a/b\n");
  WriteBytes("/sys/fs/cgroup/a/b/memory.max", 100 * kMiB);
  WriteBytes("/sys/fs/cgroup/a/b/memory.current", 10 * kMiB);
  WriteBytes("/sys/fs/cgroup/a/memory.max", 40 * kMiB);
  WriteBytes("/sys/fs/cgroup/a/memory.current", 12 * kMiB);
  EXPECT_EQ(Check(20 * kMiB), WEFT_SUCCESS);
  const absl::Status refused = CheckCgroupMemory(root_, 64 * kMiB);
  EXPECT_EQ(ResultOf(refused), WEFT_OUT_OF_MEMORY);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("/sys/fs/cgroup/a is 40.0 MiB"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("28.0 MiB are free"));
  // Less is left than the limit says: page tables are counted as well.
  EXPECT_EQ(Check(28 * kMiB), WEFT_OUT_OF_MEMORY);
}

TEST_F(CgroupTest, PageCacheCountsAsFree) {
  Write("/proc/self/cgroup", "0::/a\n");
  WriteBytes("/sys/fs/cgroup/a/memory.max", 100 * kMiB);
  WriteBytes("/sys/fs/cgroup/a/memory.current", 100 * kMiB);
  EXPECT_EQ(Check(30 * kMiB), WEFT_OUT_OF_MEMORY);
  Write("/sys/fs/cgroup/a/memory.stat",
        "anon 10485760\nfile 90000000\nshmem 10485760\ninactive_file 41943040\nactive_file "
        "10485760\n");
  EXPECT_EQ(Check(30 * kMiB), WEFT_SUCCESS);
  EXPECT_EQ(Check(60 * kMiB), WEFT_OUT_OF_MEMORY);
}

TEST_F(CgroupTest, SwapThatTheGroupMayUseCountsAsFree) {
  Write("/proc/self/cgroup", "0::/a\n");
  WriteBytes("/sys/fs/cgroup/a/memory.max", 100 * kMiB);
  WriteBytes("/sys/fs/cgroup/a/memory.current", 90 * kMiB);
  Write("/proc/meminfo", "SwapTotal: 102400 kB\nSwapFree:        51200 kB\n");
  EXPECT_EQ(Check(40 * kMiB), WEFT_SUCCESS);
  EXPECT_EQ(Check(80 * kMiB), WEFT_OUT_OF_MEMORY);
  WriteBytes("/sys/fs/cgroup/a/memory.swap.max", 0);
  WriteBytes("/sys/fs/cgroup/a/memory.swap.current", 0);
  EXPECT_EQ(Check(40 * kMiB), WEFT_OUT_OF_MEMORY);
}

TEST_F(CgroupTest, Version1CountsMemoryAndSwapTogether) {
  Write("/proc/self/cgroup", "9:name=systemd:/\n4:memory:/a\n0::/\n");
  const std::string folder = "/sys/fs/cgroup/memory/a/";
  WriteBytes(folder + "memory.limit_in_bytes", 40 * kMiB);
  WriteBytes(folder + "memory.usage_in_bytes", 30 * kMiB);
  Write(folder + "memory.stat", "inactive_file 1\ntotal_inactive_file 10485760\n");
  EXPECT_EQ(Check(16 * kMiB), WEFT_SUCCESS);
  EXPECT_EQ(Check(24 * kMiB), WEFT_OUT_OF_MEMORY);
  Write("/proc/meminfo", "SwapFree: 1024000 kB\n");
  EXPECT_EQ(Check(24 * kMiB), WEFT_SUCCESS);
  WriteBytes(folder + "memory.memsw.limit_in_bytes", 40 * kMiB);
  WriteBytes(folder + "memory.memsw.usage_in_bytes", 30 * kMiB);
  EXPECT_EQ(Check(24 * kMiB), WEFT_OUT_OF_MEMORY);
}

TEST_F(CgroupTest, AContainersOwnFolderCountsWhereItsPathLeadsNowhere) {
  Write("/proc/self/cgroup", "0::/docker/0123\n");
  WriteBytes("/sys/fs/cgroup/memory.max", 40 * kMiB);
  WriteBytes("/sys/fs/cgroup/memory.current", 30 * kMiB);
  EXPECT_EQ(Check(20 * kMiB), WEFT_OUT_OF_MEMORY);
}

TEST_F(CgroupTest, NonsenseIsNoLimit) {
  Write("/proc/self/cgroup", "0::/a\n");
  for (const char* text : {"", "-1\n", "many\n", "1e3\n", "99999999999999999999999\n"}) {
    Write("/sys/fs/cgroup/a/memory.max", text);
    WriteBytes("/sys/fs/cgroup/a/memory.current", kMiB);
    EXPECT_EQ(Check(kMiB), WEFT_SUCCESS) << text;
  }
  WriteBytes("/sys/fs/cgroup/a/memory.max", kMiB);
  Write("/sys/fs/cgroup/a/memory.current", "no number\n");
  EXPECT_EQ(Check(kMiB), WEFT_SUCCESS);
}

TEST_F(CgroupTest, OomKillsAreCountedFromNowOnInTheGroupOfThatProcess) {
  Write("/proc/42/cgroup", "4:memory:/a\n0::/\n");
  Write("/proc/self/cgroup", "4:memory:/b\n0::/\n");
  const std::string file = "/sys/fs/cgroup/memory/a/memory.oom_control";
  Write(file, "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n");
  const OomKills kills(root_, "42");
  EXPECT_EQ(kills.Since(), 0U);
  Write(file, "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n");
  Write("/proc/42/cgroup", "");  // as of a process that is gone
  EXPECT_EQ(kills.Since(), 2U);
  Write(file, "oom_kill_disable 0\n");
  EXPECT_EQ(kills.Since(), 0U);
}

TEST_F(CgroupTest, OomKillsOfVersion2AreThoseOfTheFirstGroupThatCountsThem) {
  Write("/proc/42/cgroup", "0::/a/b\n");
  Write("/sys/fs/cgroup/a/b/cgroup.events", "populated 1\n");
  const std::string file = "/sys/fs/cgroup/a/memory.events";
  Write(file, "low 0\nhigh 0\nmax 7\noom 4\noom_kill 0\noom_group_kill 9\n");
  const OomKills kills(root_, "42");
  Write(file, "low 0\nhigh 0\nmax 8\noom 5\noom_kill 1\noom_group_kill 9\n");
  EXPECT_EQ(kills.Since(), 1U);
}

TEST_F(CgroupTest, OomKillsThatCannotBeReadAreNone) {
  const OomKills nothing(root_, "42");
  EXPECT_EQ(nothing.Since(), 0U);
  EXPECT_EQ(OomKills().Since(), 0U);
  Write("/proc/42/cgroup", "0::/a\n");
  Write("/sys/fs/cgroup/a/memory.events", "oom_kill many\n");
  const OomKills nonsense(root_, "42");
  Write("/sys/fs/cgroup/a/memory.events", "oom_kill 4\n");
  EXPECT_EQ(nonsense.Since(), 0U);
}

}  // namespace
}  // namespace weft::cgroup_test
