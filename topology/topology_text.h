// A topology for people: in text, and the phrases that text and drawing share.
//
//   fputs(TopologyText(topology).c_str(), stdout);
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "topology/topology.h"

namespace weft {

// Lines: the machine, its objects with what lies in them (cores that follow each other in one line), NUMA distances, network
// devices. `topology` as CompleteTopology leaves it.
std::string TopologyText(const Topology& topology);

// "NUMA node 0, 128 GiB": with its size, if that is known, without its CPUs.
std::string ObjectText(ObjectKind kind, const TopologyObject& object);

// "eth0: ethernet, 100 Gbit/s, RDMA mlx5_0, PCI 0000:3b:00.0 behind 0000:3a:00.0": without its NUMA node.
std::string DeviceText(const NetworkDevice& device);

// "AMD EPYC 7763, 128 CPUs, 2 packages, 8 NUMA nodes, 16 L3 caches, 64 cores": what there is of each kind.
std::string SummaryText(const Topology& topology);

}  // namespace weft
