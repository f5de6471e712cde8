// Machines made of files: what weft reads of a topology from /sys, also when that is not what it should be.
#include "topology/sysfs_topology.h"

#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/status.h"
#include "tests/base/machine_of_files.h"
#include "tests/topology/machines.h"
#include "topology/topology_json.h"

namespace weft {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

class SysfsTopologyTest : public MachineOfFiles {
 protected:
  static std::string CpuPath(int cpu) {
    return "/sys/devices/system/cpu/cpu" + std::to_string(cpu);
  }

  void Line(const std::string& path, const std::string& text) { Write(path, text + "\n"); }

  void AddCache(int cpu, int index, const std::string& level, const std::string& cpus,
                const std::string& size) {
    const std::string folder = CpuPath(cpu) + "/cache/index" + std::to_string(index);
    Line(folder + "/level", level);
    Line(folder + "/type", "Unified");
    Line(folder + "/shared_cpu_list", cpus);
    Line(folder + "/size", size);
  }

  void AddCpu(int cpu, int package, const std::string& threads) {
    Line(CpuPath(cpu) + "/topology/physical_package_id", std::to_string(package));
    Line(CpuPath(cpu) + "/topology/core_cpus_list", threads);
  }

  void AddNode(int node, const std::string& cpus, uint64_t kib, const std::string& distances) {
    const std::string folder = "/sys/devices/system/node/node" + std::to_string(node);
    Line(folder + "/cpulist", cpus);
    Line(folder + "/meminfo", "Node " + std::to_string(node) +
                                  " MemTotal:       " + std::to_string(kib) + " kB\nNode " +
                                  std::to_string(node) + " MemFree: 1 kB");
    Line(folder + "/distance", distances);
  }

  // A device of a driver below the PCI device at `path`, as the kernel links it.
  void AddDevice(const std::string& name, const std::string& path, const std::string& driver,
                 const std::string& type, const std::string& speed) {
    const std::string folder = "/sys/devices/" + path + driver + "/net/" + name;
    Line(folder + "/type", type);
    Line(folder + "/speed", speed);
    fs::create_directory_symlink("../../../" + fs::path(path + driver).filename().string(),
                                 root_ + folder + "/device");
    fs::create_directories(root_ + "/sys/class/net");
    fs::create_directory_symlink("../.." + folder.substr(4), root_ + "/sys/class/net/" + name);
  }

  // The machine of cpus_in_turns.json.
  void MakeCpusInTurns() {
    Line("/sys/devices/system/cpu/online", "0-15");
    Line("/sys/devices/system/node/online", "0-1");
    Write("/proc/cpuinfo", "model name\t: Intel(R) Xeon(R) CPU E5-2620 v4\nflags\t: fpu avx2\n");
    Line("/proc/sys/kernel/hostname", "turns");
    const std::string halves[] = {"0,2,4,6,8,10,12,14", "1,3,5,7,9,11,13,15"};
    for (int cpu = 0; cpu < 16; ++cpu) {
      AddCpu(cpu, cpu % 2, std::to_string(cpu));
      AddCache(cpu, 0, "1", std::to_string(cpu), "32K");
      AddCache(cpu, 1, "3", halves[cpu % 2], "20480K");
    }
    AddNode(0, halves[0], 32 << 20, "10 21");
    AddNode(1, halves[1], 32 << 20, "21 10");
    AddDevice("eth0", "pci0000:00/0000:00:02.0/0000:03:00.0", "", "1", "10000");
    AddDevice("eth1", "pci0000:80/0000:80:02.0/0000:83:00.0", "", "1", "10000");
    Line("/sys/devices/pci0000:00/0000:00:02.0/0000:03:00.0/numa_node", "0");
    Line("/sys/devices/pci0000:80/0000:80:02.0/0000:83:00.0/numa_node", "1");
  }

  Topology Read() {
    absl::StatusOr<Topology> topology = ReadSysfsTopology(root_);
    EXPECT_TRUE(topology.ok()) << topology.status();
    return topology.value_or(Topology());
  }
};

TEST(SysfsTopology, ThisMachineIsRead) {
  const absl::StatusOr<Topology> topology = ReadSysfsTopology("");
  if (!topology.ok() && ResultOf(topology.status()) == WEFT_UNSUPPORTED)
    GTEST_SKIP() << topology.status();
  ASSERT_TRUE(topology.ok()) << topology.status();
  EXPECT_TRUE(topology->cpus.Contains(CpuSet::OfThisThread()));
  EXPECT_FALSE(topology->cores.empty());
  const absl::StatusOr<Topology> again = TopologyFromJson(TopologyAsJson(*topology));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, *topology);
}

TEST_F(SysfsTopologyTest, ReadsAWholeMachine) {
  MakeCpusInTurns();
  EXPECT_EQ(TopologyAsJson(Read()), MachineText("cpus_in_turns"));
}

TEST_F(SysfsTopologyTest, OnlyCpusThatAreOnlineCount) {
  MakeCpusInTurns();
  Line("/sys/devices/system/cpu/online", "0-3");
  const Topology topology = Read();
  EXPECT_EQ(topology.packages[1].cpus.ToList(), "1,3");
  EXPECT_EQ(topology.numa_nodes[0].cpus.ToList(), "0,2");
  EXPECT_EQ(topology.l3_caches[0].cpus.ToList(), "0,2");
  EXPECT_EQ(topology.cores.size(), 4u);
}

TEST_F(SysfsTopologyTest, WithoutCpusThereIsNothingToSay) {
  for (const char* const online : {"", "x", "9999999"}) {
    Line("/sys/devices/system/cpu/online", online);
    const absl::Status status = ReadSysfsTopology(root_).status();
    EXPECT_EQ(ResultOf(status), WEFT_UNSUPPORTED);
    EXPECT_THAT(std::string(status.message()), HasSubstr("WEFT_TOPOLOGY_FILE"));
  }
}

TEST_F(SysfsTopologyTest, WhatIsMissingIsLeftOut) {
  Line("/sys/devices/system/cpu/online", "0-1");
  const Topology topology = Read();
  EXPECT_TRUE(topology.packages.empty());
  EXPECT_TRUE(topology.numa_nodes.empty());
  EXPECT_TRUE(topology.l3_caches.empty());
  EXPECT_TRUE(topology.network.empty());
  EXPECT_EQ(topology.cores.size(), 2u);  // each CPU is one
}

TEST_F(SysfsTopologyTest, WhatMakesNoSenseIsLeftOut) {
  MakeCpusInTurns();
  Line(CpuPath(0) + "/topology/core_cpus_list", "0-4000000");
  Line(CpuPath(2) + "/topology/core_cpus_list", "0,2");  // CPU 0 is a core's already
  Line(CpuPath(3) + "/topology/physical_package_id", "-1");
  Line("/sys/devices/system/node/node1/distance", "21 x");
  Line("/sys/devices/system/node/node1/meminfo", "Node 1 MemTotal: 99999999999999999999 kB");
  Line("/sys/devices/pci0000:00/0000:00:02.0/0000:03:00.0/numa_node", "-1");
  Line("/sys/devices/pci0000:80/0000:80:02.0/0000:83:00.0/numa_node",
       "5");  // there is no such node
  Line("/sys/class/net/eth1/speed", "-1");
  const Topology topology = Read();
  EXPECT_EQ(topology.cores.size(), 16u);
  EXPECT_EQ(topology.packages[1].cpus.ToList(), "1,5,7,9,11,13,15");
  EXPECT_TRUE(topology.numa_distances.empty());
  EXPECT_EQ(topology.numa_nodes[1].bytes, 0u);
  EXPECT_EQ(topology.network[0].numa_node, -1);
  EXPECT_EQ(topology.network[1].numa_node, -1);
  EXPECT_EQ(topology.network[1].speed_mbit_s, 0);
}

TEST_F(SysfsTopologyTest, AMachineThatContradictsItselfIsAnError) {
  MakeCpusInTurns();
  AddNode(0, "0-7", 32 << 20, "10 21");
  AddNode(1, "8-15", 32 << 20, "21 10");
  const absl::Status status = ReadSysfsTopology(root_).status();
  EXPECT_EQ(ResultOf(status), WEFT_CORRUPT);
  EXPECT_THAT(std::string(status.message()), HasSubstr("contradicts itself"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("overlap"));
}

TEST_F(SysfsTopologyTest, MemoryWithoutCpusIsANode) {
  MakeCpusInTurns();
  Line("/sys/devices/system/node/online", "0-2");
  AddNode(2, "", 1 << 20, "31 31 10");
  const Topology topology = Read();
  ASSERT_EQ(topology.numa_nodes.size(), 3u);
  EXPECT_TRUE(topology.numa_nodes[2].cpus.empty());
  EXPECT_EQ(topology.numa_nodes[2].bytes, uint64_t{1} << 30);
}

TEST_F(SysfsTopologyTest, ReadsInfinibandAndLeavesOutWhatHangsOnNoBus) {
  MakeCpusInTurns();
  const std::string pci = "pci0000:80/0000:80:03.0/0000:84:00.0";
  AddDevice("ib0", pci, "", "32", "-1");
  Line("/sys/devices/" + pci + "/numa_node", "1");
  Line("/sys/devices/" + pci + "/infiniband/mlx5_0/ports/1/rate", "100 Gb/sec (4X EDR)");
  AddDevice("virtual0", "pci0000:00/0000:00:04.0", "/virtio2", "1", "-1");
  fs::create_directories(root_ + "/sys/devices/virtual/net/lo");
  fs::create_directory_symlink("../../devices/virtual/net/lo", root_ + "/sys/class/net/lo");
  const Topology topology = Read();
  ASSERT_EQ(topology.network.size(), 4u);
  const NetworkDevice& infiniband = topology.network[2];
  EXPECT_EQ(infiniband.name, "ib0");
  EXPECT_EQ(infiniband.kind, "infiniband");
  EXPECT_EQ(infiniband.rdma, "mlx5_0");
  EXPECT_EQ(infiniband.speed_mbit_s, 100'000);
  EXPECT_EQ(infiniband.numa_node, 1);
  EXPECT_THAT(infiniband.pci, testing::ElementsAre("0000:80:03.0", "0000:84:00.0"));
  const NetworkDevice& paravirtual = topology.network[3];
  EXPECT_EQ(paravirtual.name, "virtual0");
  EXPECT_THAT(paravirtual.pci, testing::ElementsAre("0000:00:04.0"));
}

}  // namespace
}  // namespace weft
