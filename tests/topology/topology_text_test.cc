#include "topology/topology_text.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/topology/machines.h"

namespace weft {
namespace {

TEST(TopologyText, SaysWhatLiesInWhat) {
  EXPECT_EQ(TopologyText(Machine("xeon_snc2")),
            "xeon: Intel(R) Xeon(R) Gold 6442Y, 96 CPUs, 2 packages, 4 NUMA nodes, 2 L3 caches, 48 "
            "cores; from sysfs\n"
            "  package 0: CPUs 0-23,48-71\n"
            "    L3 cache 0, 60 MiB: CPUs 0-23,48-71\n"
            "      NUMA node 0, 64 GiB: CPUs 0-11,48-59\n"
            "        cores 0-11: CPUs 0-11,48-59\n"
            "      NUMA node 1, 64 GiB: CPUs 12-23,60-71\n"
            "        cores 12-23: CPUs 12-23,60-71\n"
            "  package 1: CPUs 24-47,72-95\n"
            "    L3 cache 1, 60 MiB: CPUs 24-47,72-95\n"
            "      NUMA node 2, 64 GiB: CPUs 24-35,72-83\n"
            "        cores 24-35: CPUs 24-35,72-83\n"
            "      NUMA node 3, 64 GiB: CPUs 36-47,84-95\n"
            "        cores 36-47: CPUs 36-47,84-95\n"
            "NUMA distances:\n"
            "     0:  10  12  21  21\n"
            "     1:  12  10  21  21\n"
            "     2:  21  21  10  12\n"
            "     3:  21  21  12  10\n"
            "network devices:\n"
            "  ens1np0: ethernet, 100 Gbit/s, RDMA mlx5_0, PCI 0000:17:00.0 behind 0000:16:02.0, "
            "near NUMA node 0\n"
            "  ens2np0: ethernet, 100 Gbit/s, RDMA mlx5_1, PCI 0000:98:00.0 behind 0000:97:02.0, "
            "near NUMA node 2\n");
  EXPECT_EQ(TopologyText(Machine("two_cpus")),
            "small: AMD EPYC (virtual), 2 CPUs, 1 package, 1 NUMA node, 1 L3 cache, 2 cores; from "
            "sysfs\n"
            "  package 0: CPUs 0-1\n"
            "    NUMA node 0, 12.84 GiB: CPUs 0-1\n"
            "      L3 cache 0, 32 MiB: CPUs 0-1\n"
            "        cores 0-1: CPUs 0-1\n"
            "network devices:\n"
            "  eth0: ethernet, speed not known, PCI 0000:00:03.0, near NUMA node 0\n");
}

TEST(TopologyText, HasMachinesOfWhichLittleIsKnown) {
  Topology topology;
  topology.cpus = Cpus("0-2");
  topology.cores = {{.cpus = Cpus("0")}};
  topology.numa_nodes = {{.number = 4, .bytes = 1 << 20}};
  ASSERT_TRUE(CompleteTopology(&topology).ok());
  EXPECT_EQ(TopologyText(topology),
            "machine: CPU not known, 3 CPUs, 0 packages, 1 NUMA node, 0 L3 caches, 1 core\n"
            "  core 0: CPU 0\n"
            "  NUMA node 4, 1 MiB: no CPUs\n");
}

}  // namespace
}  // namespace weft
