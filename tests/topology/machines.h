// The machines that the tests of the topology look at: files beside this one, as weftctl topology dump writes them.
//
//   const Topology topology = Machine("xeon_snc2");
//
//   xeon_snc2      two packages, each with an L3 cache of two NUMA nodes, 24 cores of two threads and a network device
//   epyc_nps4      two packages of four NUMA nodes of two L3 caches of eight cores of two threads; three network devices
//   cpus_in_turns  two packages, CPUs numbered in turns, a network device each
//   two_cpus       a virtual machine
#pragma once

#include <fstream>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "topology/topology_json.h"

namespace weft {

inline constexpr const char* kMachineNames[] = {"xeon_snc2", "epyc_nps4", "cpus_in_turns",
                                                "two_cpus"};

inline std::string MachineText(const std::string& name) {
  std::ifstream file(WEFT_MACHINES "/" + name + ".json");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline Topology Machine(const std::string& name) {
  absl::StatusOr<Topology> topology = TopologyFromJson(MachineText(name));
  EXPECT_TRUE(topology.ok()) << topology.status();
  return topology.ok() ? *topology : Topology();
}

inline CpuSet Cpus(const std::string& list) {
  absl::StatusOr<CpuSet> cpus = CpuSet::FromList(list);
  EXPECT_TRUE(cpus.ok()) << cpus.status();
  return cpus.value_or(CpuSet());
}

}  // namespace weft
