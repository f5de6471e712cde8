#include "topology/topology_diff.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_join.h"
#include "base/text.h"
#include "topology/topology_text.h"

namespace weft {
namespace {

// What is compared, by name: what it is and what there is to say of it.
using Facts = std::map<std::pair<int, std::string>, std::string>;

// The first number of a fact: its place among the others.
enum FactPlace { kMachinePlace, kObjectPlace, kDistancePlace = 10, kNetworkPlace = 11 };

std::string Padded(int number) {
  std::string digits = std::to_string(number);
  return std::string(10 - std::min<size_t>(digits.size(), 10), '0') + digits;
}

Facts FactsOf(const Topology& topology) {
  Facts facts;
  facts[{kMachinePlace, "model"}] = topology.cpu_model;
  facts[{kMachinePlace, "virtual"}] =
      topology.hypervisor ? "a virtual machine" : "no virtual machine";
  facts[{kMachinePlace, "cpus"}] = "CPUs " + topology.cpus.ToList();
  for (const ObjectKind kind : kObjectKinds) {
    for (const TopologyObject& object : topology.ObjectsOf(kind)) {
      const int place = kObjectPlace + static_cast<int>(kind);
      facts[{place, Padded(object.number)}] =
          StrCat(ObjectText(kind, object), ": CPUs ", object.cpus.ToList());
    }
  }
  for (size_t i = 0; i < topology.numa_distances.size(); ++i) {
    const int number = topology.numa_nodes[i].number;
    facts[{kDistancePlace, Padded(number)}] = StrCat(
        "distances of NUMA node ", number, ": ", absl::StrJoin(topology.numa_distances[i], " "));
  }
  for (const NetworkDevice& device : topology.network) {
    facts[{kNetworkPlace, device.name}] =
        StrCat(DeviceText(device), ", NUMA node ",
               device.numa_node == -1 ? "not known" : std::to_string(device.numa_node));
  }
  return facts;
}

}  // namespace

std::vector<std::string> DiffTopologies(const Topology& before, const Topology& after) {
  const Facts old_facts = FactsOf(before);
  const Facts new_facts = FactsOf(after);
  Facts all = old_facts;
  all.insert(new_facts.begin(), new_facts.end());
  std::vector<std::string> lines;
  for (const auto& [key, fact] : all) {
    const auto was = old_facts.find(key);
    const auto is = new_facts.find(key);
    if (was != old_facts.end() && is != new_facts.end() && was->second == is->second) continue;
    if (was != old_facts.end()) lines.push_back("- " + was->second);
    if (is != new_facts.end()) lines.push_back("+ " + is->second);
  }
  return lines;
}

}  // namespace weft
