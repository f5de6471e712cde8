// Machines made of files: what weft reads from /proc and /sys, also when it is not what it should be.
#include "base/host.h"

#include <filesystem>
#include <random>
#include <string>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/base/machine_of_files.h"
#include "tests/support/leak_check.h"

namespace weft::host_test {
namespace {

namespace fs = std::filesystem;

class HostTest : public MachineOfFiles {
 protected:
  HostFacts Read(int cpus = 8) { return ReadHostFacts(root_, cpus); }
};

TEST(Host, ThisMachineHasCoresAndMemory) {
  const HostFacts host = ReadHostFacts();
  EXPECT_GE(host.cpus, 1);
  EXPECT_GT(host.cores, 0);
  EXPECT_LE(host.cores, host.cpus);
  EXPECT_GT(host.memory_bytes, uint64_t{16} << 20);
  EXPECT_FALSE(host.cpu_model.empty());
}

TEST_F(HostTest, NothingToReadIsTheDefault) {
  const HostFacts host = Read(3);
  const HostFacts defaults;
  EXPECT_EQ(host.cpus, 3);
  EXPECT_EQ(host.cores, 3);
  EXPECT_EQ(host.cpu_model, defaults.cpu_model);
  EXPECT_EQ(host.l2_bytes, defaults.l2_bytes);
  EXPECT_EQ(host.memory_bytes, 0u);
  EXPECT_EQ(Read(0).cores, 1);
}

TEST_F(HostTest, ReadsProcessorCachesAndMemory) {
  Write("/proc/cpuinfo",
        "processor\t: 0\nmodel name\t: Some CPU @ 2GHz\nflags\t\t: fpu hypervisor avx2\n");
  Write("/proc/meminfo", "MemTotal:       16384 kB\nMemFree: 1 kB\n");
  Write("/proc/sys/kernel/osrelease", "6.1.0-18-amd64\n");
  const std::string cache = "/sys/devices/system/cpu/cpu0/cache/index";
  const char* levels[][3] = {{"1", "Instruction", "64K"},
                             {"1", "Data", "48K"},
                             {"2", "Unified", "2048K"},
                             {"3", "Unified", "480M"}};
  for (int i = 0; i < 4; ++i) {
    Write(cache + std::to_string(i) + "/level", std::string(levels[i][0]) + "\n");
    Write(cache + std::to_string(i) + "/type", std::string(levels[i][1]) + "\n");
    Write(cache + std::to_string(i) + "/size", std::string(levels[i][2]) + "\n");
  }
  const HostFacts host = Read();
  EXPECT_EQ(host.cpu_model, "Some CPU @ 2GHz");
  EXPECT_TRUE(host.hypervisor);
  EXPECT_EQ(host.kernel_release, "6.1.0-18-amd64");
  EXPECT_EQ(host.memory_bytes, uint64_t{16} << 20);
  EXPECT_EQ(host.l1_bytes, 48u << 10);
  EXPECT_EQ(host.l2_bytes, 2u << 20);
  EXPECT_EQ(host.l3_bytes, 480u << 20);
}

TEST_F(HostTest, AFlagIsAWord) {
  Write("/proc/cpuinfo", "flags : fpu nohypervisor hypervisors\n");
  EXPECT_FALSE(Read().hypervisor);
}

TEST_F(HostTest, QuotaOfVersion2IsTheSmallestOnTheWayUp) {
  Write("/proc/self/cgroup", "0::/a/b/c\n");
  Write("/sys/fs/cgroup/a/b/c/cpu.max", "max 100000\n");
  Write("/sys/fs/cgroup/a/b/cpu.max", "150000 100000\n");
  Write("/sys/fs/cgroup/a/cpu.max", "400000 100000\n");
  Write("/sys/fs/cgroup/a/memory.max", "1048576\n");
  Write("/sys/fs/cgroup/a/b/memory.max", "max\n");
  EXPECT_DOUBLE_EQ(Read().cores, 1.5);
  EXPECT_EQ(Read().memory_bytes, 1u << 20);
  EXPECT_DOUBLE_EQ(Read(1).cores, 1);
}

TEST_F(HostTest, QuotaOfAContainerWhosePathLeadsNowhere) {
  Write("/proc/self/cgroup", "0::/docker/0123\n");
  Write("/sys/fs/cgroup/cpu.max", "50000 100000\n");
  EXPECT_DOUBLE_EQ(Read().cores, 0.5);
}

TEST_F(HostTest, QuotaOfVersion1UnderEitherName) {
  Write("/proc/self/cgroup", "5:cpuset:/x\n4:cpu,cpuacct:/a\n3:memory:/m\n0::/\n");
  Write("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "250000\n");
  Write("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n");
  Write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  Write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  Write("/sys/fs/cgroup/memory/m/memory.limit_in_bytes", "4194304\n");
  EXPECT_DOUBLE_EQ(Read().cores, 2.5);
  EXPECT_EQ(Read().memory_bytes, 4u << 20);
}

TEST_F(HostTest, NonsenseInQuotasIsNoQuota) {
  Write("/proc/self/cgroup", "0::/../../etc\n0::a\nnothing\n::\n0::/a\n");
  for (const char* text : {"", "max max", "0 100000", "-5 100000", "nan 1", "inf 1", "1 0",
                           "1e300 1", "100000", "1 2 3", "a b"}) {
    Write("/sys/fs/cgroup/a/cpu.max", text);
    EXPECT_DOUBLE_EQ(Read().cores, 8) << text;
  }
}

TEST_F(HostTest, AnyBytesAreSurvived) {
  const uint64_t seed = test::TestSeed(20261121);
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(static_cast<uint32_t>(seed));
  const char* const files[] = {"/proc/cpuinfo",
                               "/proc/meminfo",
                               "/proc/self/cgroup",
                               "/proc/sys/kernel/osrelease",
                               "/sys/fs/cgroup/cpu.max",
                               "/sys/devices/system/cpu/cpu0/cache/index0/level",
                               "/sys/devices/system/cpu/cpu0/cache/index0/size"};
  using std::string_literals::operator""s;
  const std::string letters = "0123456789:/ \n\t.-maxKMGT,\0\xff"s;
  for (int round = 0; round < 200; ++round) {
    for (const char* file : files) {
      std::string text(random() % (round % 10 == 0 ? 40'000 : 60), ' ');
      for (char& c : text)
        c = letters[random() % letters.size()];
      Write(file, text);
    }
    const HostFacts host = Read();
    EXPECT_GT(host.cores, 0);
    EXPECT_LE(host.cores, 8);
    EXPECT_GE(host.l1_bytes, 4096u);
    EXPECT_GE(host.l3_bytes, 4096u);
    EXPECT_LE(host.cpu_model.size(), 128u);
    for (const char c : host.cpu_model)
      EXPECT_TRUE(c >= 0x20 && c <= 0x7e);
  }
}

TEST_F(HostTest, AFileThatIsAPipeOrAFolderIsNotWaitedFor) {
  fs::create_directories(root_ + "/proc/cpuinfo");
  fs::create_directories(root_ + "/proc/self");
  ASSERT_EQ(mkfifo((root_ + "/proc/self/cgroup").c_str(), 0600), 0);
  EXPECT_EQ(Read().cores, 8);
}

}  // namespace
}  // namespace weft::host_test
