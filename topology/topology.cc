#include "topology/topology.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "base/check.h"
#include "base/status.h"
#include "base/text.h"
#include "topology/topology_tree.h"

namespace weft {
namespace {

constexpr uint64_t kObjectBytesMax = uint64_t{1} << 60;
constexpr int64_t kSpeedMax = 1'000'000'000;  // 10^15 bit/s
constexpr int kDistanceMax = 65535;

absl::Status Wrong(std::string_view what) {
  return MakeError(WEFT_CORRUPT, StrCat("the topology has ", what));
}

// Printable ASCII, so that it can stand in tables, messages and drawings.
bool IsPlain(std::string_view text) {
  return text.size() <= kTopologyNameBytesMax &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c <= 0x7e; });
}

absl::Status CheckObjects(const Topology& topology, ObjectKind kind) {
  const std::vector<TopologyObject>& objects = topology.ObjectsOf(kind);
  const size_t most = kind == ObjectKind::kNumaNode ? kNumaNodesMax : kTopologyObjectsMax;
  if (objects.size() > most)
    return Wrong(StrCat("more than ", most, " objects of the kind ", ObjectKindName(kind)));
  for (const TopologyObject& object : objects) {
    const std::string name = StrCat(ObjectKindName(kind), " ", object.number);
    if (object.cpus.empty() && kind != ObjectKind::kNumaNode)
      return Wrong(StrCat(name, ", which has no CPUs"));
    if (!topology.cpus.Contains(object.cpus)) {
      return Wrong(StrCat(name, " with CPUs that the machine does not have: ",
                          (object.cpus - topology.cpus).ToList().substr(0, 64)));
    }
    if (object.number < 0 || object.number > kObjectNumberMax)
      return Wrong(StrCat(name, ", whose number is out of range"));
    if (object.bytes > kObjectBytesMax) return Wrong(StrCat(name, " of ", object.bytes, " bytes"));
  }
  return absl::OkStatus();
}

// Caches and cores get their numbers later.
absl::Status CheckNumbers(const std::vector<TopologyObject>& objects, ObjectKind kind) {
  for (size_t i = 1; i < objects.size(); ++i) {
    if (objects[i].number == objects[i - 1].number)
      return Wrong(StrCat("two of ", ObjectKindName(kind), " ", objects[i].number));
  }
  return absl::OkStatus();
}

absl::Status CheckDistances(const Topology& topology) {
  const std::vector<std::vector<int>>& rows = topology.numa_distances;
  const size_t nodes = topology.numa_nodes.size();
  if (rows.empty()) return absl::OkStatus();
  const bool square =
      rows.size() == nodes &&
      std::all_of(rows.begin(), rows.end(), [&](const auto& row) { return row.size() == nodes; });
  if (!square) return Wrong(StrCat("NUMA distances that are no ", nodes, " rows of ", nodes));
  for (const std::vector<int>& row : rows) {
    for (const int distance : row) {
      if (distance < 0 || distance > kDistanceMax)
        return Wrong(StrCat("the NUMA distance ", distance));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckNetwork(const Topology& topology) {
  const std::vector<NetworkDevice>& devices = topology.network;
  if (devices.size() > kNetworkDevicesMax)
    return Wrong(StrCat("more than ", kNetworkDevicesMax, " network devices"));
  for (size_t i = 0; i < devices.size(); ++i) {
    const NetworkDevice& device = devices[i];
    if (device.name.empty() || !IsPlain(device.name) || !IsPlain(device.rdma))
      return Wrong("a network device without a name, or with one that is not plain");
    const std::string name = StrCat("network device ", device.name);
    if (i > 0 && device.name == devices[i - 1].name) return Wrong(StrCat("two of ", name));
    if (device.kind != "ethernet" && device.kind != "infiniband" && device.kind != "other")
      return Wrong(StrCat(name, " of another kind than ethernet, infiniband and other"));
    if (device.speed_mbit_s < 0 || device.speed_mbit_s > kSpeedMax)
      return Wrong(StrCat(name, " with the speed ", device.speed_mbit_s));
    const auto near = [&](const TopologyObject& node) {
      return node.number == device.numa_node;
    };
    if (device.numa_node != -1 &&
        std::none_of(topology.numa_nodes.begin(), topology.numa_nodes.end(), near))
      return Wrong(StrCat(name, " near NUMA node ", device.numa_node, ", which is not there"));
    if (device.pci.size() > kPciPathMax ||
        !std::all_of(device.pci.begin(), device.pci.end(),
                     [](const auto& a) { return IsPciAddress(a); }))
      return Wrong(StrCat(name, " with a PCI path that is none, as 0000:3a:00.0"));
  }
  return absl::OkStatus();
}

// Nodes and their distances together.
void SortNumaNodes(Topology* topology) {
  const size_t nodes = topology->numa_nodes.size();
  std::vector<size_t> order(nodes);
  for (size_t i = 0; i < nodes; ++i)
    order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return topology->numa_nodes[a].number < topology->numa_nodes[b].number;
  });
  const Topology before = *topology;
  for (size_t i = 0; i < nodes; ++i) {
    topology->numa_nodes[i] = before.numa_nodes[order[i]];
    for (size_t j = 0; j < nodes && !before.numa_distances.empty(); ++j)
      topology->numa_distances[i][j] = before.numa_distances[order[i]][order[j]];
  }
}

void CollectInOrder(const TopologyTree& tree, ObjectKind kind,
                    std::vector<TopologyObject>* objects) {
  if (tree.object != nullptr && tree.kind == kind) {
    objects->push_back(*tree.object);
    objects->back().number = static_cast<int>(objects->size()) - 1;
  }
  for (const TopologyTree& child : tree.children)
    CollectInOrder(child, kind, objects);
}

}  // namespace

const char* ObjectKindName(ObjectKind kind) {
  constexpr const char* kNames[] = {"package", "NUMA node", "L3 cache", "core"};
  return kNames[static_cast<size_t>(kind)];
}

const std::vector<TopologyObject>& Topology::ObjectsOf(ObjectKind kind) const {
  const std::vector<TopologyObject>* const lists[] = {&packages, &numa_nodes, &l3_caches, &cores};
  return *lists[static_cast<size_t>(kind)];
}

std::vector<TopologyObject>& Topology::ObjectsOf(ObjectKind kind) {
  return const_cast<std::vector<TopologyObject>&>(std::as_const(*this).ObjectsOf(kind));
}

bool IsPciAddress(std::string_view text) {
  // Domains have four digits, some virtual ones eight.
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos || colon < 4 || colon > 8 || text.size() != colon + 8)
    return false;
  const std::string_view rest = text.substr(colon);
  for (size_t i = 0; i < text.size(); ++i) {
    const bool mark = i == colon || i == colon + 3 || i == colon + 6;
    if (!mark && !absl::ascii_isxdigit(static_cast<unsigned char>(text[i]))) return false;
  }
  return rest[3] == ':' && rest[6] == '.';
}

absl::Status CompleteTopology(Topology* topology) {
  if (!IsPlain(topology->source) || !IsPlain(topology->host) || !IsPlain(topology->cpu_model))
    return Wrong(StrCat("a source, host or cpu_model that is no plain text of up to ",
                        kTopologyNameBytesMax, " characters"));
  if (topology->cpus.empty()) return Wrong("no CPUs");
  for (const ObjectKind kind : kObjectKinds)
    WEFT_RETURN_IF_ERROR(CheckObjects(*topology, kind));
  WEFT_RETURN_IF_ERROR(CheckDistances(*topology));
  SortNumaNodes(topology);
  std::stable_sort(topology->packages.begin(), topology->packages.end(),
                   [](const auto& a, const auto& b) { return a.number < b.number; });
  std::stable_sort(topology->network.begin(), topology->network.end(),
                   [](const auto& a, const auto& b) { return a.name < b.name; });
  WEFT_RETURN_IF_ERROR(CheckNumbers(topology->packages, ObjectKind::kPackage));
  WEFT_RETURN_IF_ERROR(CheckNumbers(topology->numa_nodes, ObjectKind::kNumaNode));
  WEFT_RETURN_IF_ERROR(CheckNetwork(*topology));
  WEFT_ASSIGN_OR_RETURN(const TopologyTree tree, BuildTopologyTree(*topology));
  std::vector<TopologyObject> caches;
  std::vector<TopologyObject> cores;
  CollectInOrder(tree, ObjectKind::kL3, &caches);
  CollectInOrder(tree, ObjectKind::kCore, &cores);
  topology->l3_caches = std::move(caches);
  topology->cores = std::move(cores);
  return absl::OkStatus();
}

}  // namespace weft
