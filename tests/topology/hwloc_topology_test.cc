// What hwloc tells of machines that it makes up: its own variable puts them in the place of this one.
#include "topology/hwloc_topology.h"

#include <cstdlib>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/status.h"
#include "topology/sysfs_topology.h"
#include "topology/topology_text.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

class HwlocTopologyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const absl::Status status = ReadHwlocTopology().status();
    if (ResultOf(status) == WEFT_UNSUPPORTED) GTEST_SKIP() << status;
  }

  void TearDown() override { unsetenv("HWLOC_SYNTHETIC"); }
};

TEST(HwlocTopology, WithoutHwlocItSaysSo) {
  const absl::Status status = ReadHwlocTopology().status();
  if (status.ok()) GTEST_SKIP() << "there is one";
  EXPECT_THAT(std::string(status.message()), HasSubstr("hwloc"));
}

TEST_F(HwlocTopologyTest, ReadsWhatHwlocHas) {
  ASSERT_EQ(setenv("HWLOC_SYNTHETIC", "pack:2 l3:1(size=16MB) numa:2(memory=1GiB) core:2 pu:2", 1),
            0);
  const absl::StatusOr<Topology> topology = ReadHwlocTopology();
  ASSERT_TRUE(topology.ok()) << topology.status();
  EXPECT_EQ(topology->source, "hwloc");
  EXPECT_EQ(topology->cpus.ToList(), "0-15");
  ASSERT_EQ(topology->packages.size(), 2u);
  EXPECT_EQ(topology->packages[1].cpus.ToList(), "8-15");
  ASSERT_EQ(topology->numa_nodes.size(), 4u);
  EXPECT_EQ(topology->numa_nodes[3].cpus.ToList(), "12-15");
  EXPECT_GT(topology->numa_nodes[3].bytes, 900u << 20);
  ASSERT_EQ(topology->l3_caches.size(), 2u);
  EXPECT_GT(topology->l3_caches[0].bytes, 15u << 20);
  ASSERT_EQ(topology->cores.size(), 8u);
  EXPECT_EQ(topology->cores[7].cpus.ToList(), "14-15");
}

TEST_F(HwlocTopologyTest, AgreesWithSysfsOnThisMachine) {
  const absl::StatusOr<Topology> sysfs = ReadSysfsTopology("");
  const absl::StatusOr<Topology> hwloc = ReadHwlocTopology();
  if (!sysfs.ok()) GTEST_SKIP() << sysfs.status();
  ASSERT_TRUE(hwloc.ok()) << hwloc.status();
  EXPECT_EQ(hwloc->cpus, sysfs->cpus);
}

}  // namespace
}  // namespace weft
