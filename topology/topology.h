// What a machine looks like: packages, NUMA nodes, L3 caches, cores, network devices, and where each lies.
//
//   WEFT_ASSIGN_OR_RETURN(const Topology topology, ReadTopology());       // read_topology.h
//   for (const TopologyObject& node : topology.numa_nodes) ... node.cpus
//
// Flat lists of objects, each with its CPUs; what lies in what follows from the sets (topology_tree.h), because
// the order of levels differs: a package of an EPYC has NUMA nodes of several L3 caches, one of a Xeon an L3 of several NUMA nodes.
// Every list may be empty: the machine has none of these, or does not say.
// Thread-safety: values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "topology/cpu_set.h"

namespace weft {

// From the largest to the smallest, where objects have the same CPUs.
enum class ObjectKind { kPackage, kNumaNode, kL3, kCore };

inline constexpr ObjectKind kObjectKinds[] = {ObjectKind::kPackage, ObjectKind::kNumaNode,
                                              ObjectKind::kL3, ObjectKind::kCore};

// "package", "NUMA node", "L3 cache", "core".
const char* ObjectKindName(ObjectKind kind);

struct TopologyObject {
  int number = 0;      // of packages and NUMA nodes the system's own; else in order, from 0
  CpuSet cpus;         // empty of a NUMA node that is memory alone
  uint64_t bytes = 0;  // of an L3 cache, or of a NUMA node's memory; 0: not known

  bool operator==(const TopologyObject&) const = default;
};

struct NetworkDevice {
  std::string name;              // "eth0"
  std::string kind;              // "ethernet", "infiniband" or "other"
  int64_t speed_mbit_s = 0;      // of its link; 0: down, or it does not say
  int numa_node = -1;            // that it is near to; -1: not known
  std::vector<std::string> pci;  // "0000:3a:00.0", ...: from the root to the device itself
  std::string rdma;              // "mlx5_0"; "": none

  bool operator==(const NetworkDevice&) const = default;
};

struct Topology {
  std::string source;       // "sysfs" or "hwloc": who has looked
  std::string host;         // name of the machine
  std::string cpu_model;    // "AMD EPYC 7763 64-Core Processor"
  bool hypervisor = false;  // a virtual machine, whose host need not look like it
  CpuSet cpus;              // all that are online
  std::vector<TopologyObject> packages;
  std::vector<TopologyObject> numa_nodes;
  std::vector<TopologyObject> l3_caches;
  std::vector<TopologyObject> cores;
  // Of NUMA nodes in their order, a row each, as the firmware has them: 10 is one's own. Empty: not known.
  std::vector<std::vector<int>> numa_distances;
  std::vector<NetworkDevice> network;

  const std::vector<TopologyObject>& ObjectsOf(ObjectKind kind) const;
  std::vector<TopologyObject>& ObjectsOf(ObjectKind kind);

  bool operator==(const Topology&) const = default;
};

// The bounds of what is taken for a machine.
inline constexpr size_t kTopologyObjectsMax = kCpusMax;  // of a kind
inline constexpr size_t kNumaNodesMax = 1024;
inline constexpr size_t kNetworkDevicesMax = 1024;
inline constexpr size_t kTopologyNameBytesMax = 128;
inline constexpr size_t kPciPathMax = 32;
inline constexpr int kObjectNumberMax = 1 << 30;

// "0000:3b:00.0": domain, bus, device and function of a PCI device.
bool IsPciAddress(std::string_view text);

// What every reader ends with. Puts objects into order (packages and NUMA nodes by number, L3 caches and cores as they lie in these), numbers
// caches and cores, sorts network devices by name. CORRUPT, with the objects, if something is out of bounds or two objects overlap
// of which neither lies in the other.
absl::Status CompleteTopology(Topology* topology);

}  // namespace weft
