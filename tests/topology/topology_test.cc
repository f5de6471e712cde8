// What is taken for a machine, its order, its tree, and where two of them differ.
#include "topology/topology.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/status.h"
#include "tests/topology/machines.h"
#include "topology/topology_diff.h"
#include "topology/topology_tree.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Topology FourCpus() {
  Topology topology;
  topology.cpus = Cpus("0-3");
  return topology;
}

std::string Complaint(Topology topology) {
  const absl::Status status = CompleteTopology(&topology);
  EXPECT_EQ(ResultOf(status), WEFT_CORRUPT);
  return std::string(status.message());
}

// "package(NUMA node(core core))": what lies in what, without numbers.
std::string Shape(const TopologyTree& tree) {
  std::string inside;
  for (const TopologyTree& child : tree.children)
    inside += (inside.empty() ? "" : " ") + Shape(child);
  if (tree.object == nullptr) return inside;
  return std::string(ObjectKindName(tree.kind)) + (inside.empty() ? "" : "(" + inside + ")");
}

TEST(TopologyTree, LevelsFollowFromTheCpus) {
  Topology topology = FourCpus();
  topology.packages = {{.number = 0, .cpus = Cpus("0-3")}};
  topology.l3_caches = {{.cpus = Cpus("0-3")}};
  topology.numa_nodes = {{.number = 0, .cpus = Cpus("0-1")}, {.number = 1, .cpus = Cpus("2-3")}};
  topology.cores = {{.cpus = Cpus("2-3")}, {.cpus = Cpus("0-1")}};
  ASSERT_TRUE(CompleteTopology(&topology).ok());
  EXPECT_EQ(Shape(*BuildTopologyTree(topology)),
            "package(L3 cache(NUMA node(core) NUMA node(core)))");
  topology.l3_caches = {{.cpus = Cpus("0")}, {.cpus = Cpus("1")}};
  topology.cores.clear();
  ASSERT_TRUE(CompleteTopology(&topology).ok());
  EXPECT_EQ(Shape(*BuildTopologyTree(topology)), "package(NUMA node(L3 cache L3 cache) NUMA node)");
}

TEST(TopologyTree, LevelsOfRealMachines) {
  const Topology xeon = Machine("xeon_snc2");
  const absl::StatusOr<TopologyTree> tree = BuildTopologyTree(xeon);
  ASSERT_TRUE(tree.ok());
  ASSERT_EQ(tree->children.size(), 2u);
  EXPECT_EQ(tree->children[0].kind, ObjectKind::kPackage);
  ASSERT_EQ(tree->children[0].children.size(), 1u);
  EXPECT_EQ(tree->children[0].children[0].kind, ObjectKind::kL3);
  EXPECT_EQ(tree->children[0].children[0].children.size(), 2u);  // NUMA nodes
  const Topology epyc = Machine("epyc_nps4");
  const absl::StatusOr<TopologyTree> other = BuildTopologyTree(epyc);
  ASSERT_TRUE(other.ok());
  EXPECT_EQ(other->children[1].children.size(), 4u);
  EXPECT_EQ(other->children[1].children[3].kind, ObjectKind::kNumaNode);
  EXPECT_EQ(other->children[1].children[3].children.size(), 2u);  // L3 caches
}

TEST(Topology, PutsObjectsInOrder) {
  Topology topology = FourCpus();
  topology.packages = {{.number = 7, .cpus = Cpus("0,2")}, {.number = 3, .cpus = Cpus("1,3")}};
  topology.numa_nodes = {{.number = 1, .cpus = Cpus("0,2")}, {.number = 0, .cpus = Cpus("1,3")}};
  topology.numa_distances = {{10, 21}, {22, 11}};
  topology.cores = {
      {.cpus = Cpus("0")}, {.cpus = Cpus("1")}, {.cpus = Cpus("2")}, {.cpus = Cpus("3")}};
  topology.network = {{.name = "b", .kind = "other"}, {.name = "a", .kind = "ethernet"}};
  ASSERT_TRUE(CompleteTopology(&topology).ok());
  EXPECT_EQ(topology.packages[0].number, 3);
  EXPECT_EQ(topology.numa_nodes[0].number, 0);
  EXPECT_THAT(topology.numa_distances, ElementsAre(ElementsAre(11, 22), ElementsAre(21, 10)));
  // The cores of package 3 first.
  std::string cores;
  for (const TopologyObject& core : topology.cores)
    cores += core.cpus.ToList() + " ";
  EXPECT_EQ(cores, "1 3 0 2 ");
  EXPECT_EQ(topology.cores[2].number, 2);
  EXPECT_EQ(topology.network[0].name, "a");
  const Topology once = topology;
  ASSERT_TRUE(CompleteTopology(&topology).ok());
  EXPECT_EQ(topology, once);
}

TEST(Topology, ObjectsThatOverlapAreRefused) {
  Topology topology = FourCpus();
  topology.packages = {{.number = 0, .cpus = Cpus("0-1")}, {.number = 1, .cpus = Cpus("2-3")}};
  topology.l3_caches = {{.cpus = Cpus("1-2")}};
  EXPECT_THAT(Complaint(topology), HasSubstr("package 1 (CPUs 2-3) and L3 cache 0 (CPUs 1-2)"));
  topology = FourCpus();
  topology.cores = {{.number = 0, .cpus = Cpus("0-1")}, {.number = 1, .cpus = Cpus("0-1")}};
  EXPECT_THAT(Complaint(topology), HasSubstr("core 0 (CPUs 0-1) and core 1 (CPUs 0-1)"));
  topology.cores = {{.number = 0, .cpus = Cpus("0-2")}, {.number = 1, .cpus = Cpus("1")}};
  EXPECT_THAT(Complaint(topology), HasSubstr("overlap"));
  topology.cores = {{.number = 0, .cpus = Cpus("0-1")}, {.number = 1, .cpus = Cpus("1-2")}};
  EXPECT_THAT(Complaint(topology), HasSubstr("overlap"));
  // One of a kind in another one of it, with something between them.
  topology.cores = {{.number = 0, .cpus = Cpus("0-3")}, {.number = 1, .cpus = Cpus("0")}};
  topology.l3_caches = {{.cpus = Cpus("0-1")}};
  EXPECT_THAT(Complaint(topology), HasSubstr("overlap"));
}

TEST(Topology, WhatIsOutOfBoundsIsRefused) {
  Topology topology;
  EXPECT_THAT(Complaint(topology), HasSubstr("no CPUs"));
  topology = FourCpus();
  topology.cores = {{.cpus = Cpus("4")}};
  EXPECT_THAT(Complaint(topology), HasSubstr("CPUs that the machine does not have: 4"));
  topology.cores = {{}};
  EXPECT_THAT(Complaint(topology), HasSubstr("core 0, which has no CPUs"));
  topology = FourCpus();
  topology.packages = {{.number = 2, .cpus = Cpus("0")}, {.number = 2, .cpus = Cpus("1")}};
  EXPECT_THAT(Complaint(topology), HasSubstr("two of package 2"));
  topology.packages = {{.number = -1, .cpus = Cpus("0")}};
  EXPECT_THAT(Complaint(topology), HasSubstr("out of range"));
  topology = FourCpus();
  topology.numa_nodes.resize(2);
  topology.numa_nodes[1].number = 1;
  topology.numa_distances = {{10, 20}};
  EXPECT_THAT(Complaint(topology), HasSubstr("no 2 rows of 2"));
  topology.numa_distances = {{10, 20}, {10}};
  EXPECT_THAT(Complaint(topology), HasSubstr("no 2 rows of 2"));
  topology.numa_distances = {{10, 20}, {10, -1}};
  EXPECT_THAT(Complaint(topology), HasSubstr("NUMA distance -1"));
  topology = FourCpus();
  topology.host = "a\nb";
  EXPECT_THAT(Complaint(topology), HasSubstr("no plain text"));
}

TEST(Topology, NetworkDevicesThatAreNoneAreRefused) {
  const auto complaint = [](const NetworkDevice& device) {
    Topology topology = FourCpus();
    topology.network = {device};
    return Complaint(topology);
  };
  EXPECT_THAT(complaint({.kind = "ethernet"}), HasSubstr("without a name"));
  EXPECT_THAT(complaint({.name = "e", .kind = "carrier pigeon"}), HasSubstr("another kind"));
  EXPECT_THAT(complaint({.name = "e", .kind = "other", .speed_mbit_s = -1}), HasSubstr("speed -1"));
  EXPECT_THAT(complaint({.name = "e", .kind = "other", .numa_node = 0}), HasSubstr("not there"));
  for (const char* const address :
       {"", "0000", "0000:00:00", "0000:00:00.", "0000:00:00.00", "0000-00:00.0", "000:00:00.0",
        "000000000:00:00.0", "000g:00:00.0", "0000:00:00:0", "0000:00.00.0"}) {
    EXPECT_FALSE(IsPciAddress(address)) << address;
    EXPECT_THAT(complaint({.name = "e", .kind = "other", .pci = {address}}), HasSubstr("PCI path"));
  }
  EXPECT_TRUE(IsPciAddress("0000:3b:00.1"));
  EXPECT_TRUE(IsPciAddress("10000:e1:00.0"));
  Topology topology = FourCpus();
  topology.network = {{.name = "e", .kind = "other"}, {.name = "e", .kind = "other"}};
  EXPECT_THAT(Complaint(topology), HasSubstr("two of network device e"));
}

TEST(TopologyDiff, SaysWhatIsElsewhereDifferent) {
  const Topology before = Machine("cpus_in_turns");
  Topology after = before;
  EXPECT_THAT(DiffTopologies(before, after), IsEmpty());
  after.host = "another";
  after.source = "hwloc";
  EXPECT_THAT(DiffTopologies(before, after), IsEmpty());
  after.network.pop_back();
  after.numa_nodes[1].bytes = uint64_t{16} << 30;
  after.numa_distances[0][1] = 31;
  after.hypervisor = true;
  EXPECT_THAT(
      DiffTopologies(before, after),
      ElementsAre(
          "- no virtual machine", "+ a virtual machine",
          "- NUMA node 1, 32 GiB: CPUs 1,3,5,7,9,11,13,15",
          "+ NUMA node 1, 16 GiB: CPUs 1,3,5,7,9,11,13,15", "- distances of NUMA node 0: 10 21",
          "+ distances of NUMA node 0: 10 31",
          "- eth1: ethernet, 10 Gbit/s, PCI 0000:83:00.0 behind 0000:80:02.0, NUMA node 1"));
}

}  // namespace
}  // namespace weft
