#include "topology/topology_text.h"

#include <cstddef>
#include <iterator>
#include <string_view>

#include <fmt/format.h>

#include "base/check.h"
#include "base/text.h"
#include "topology/topology_tree.h"

namespace weft {
namespace {

constexpr int kIndentStep = 2;

std::string SizeText(uint64_t bytes) {
  constexpr const char* kUnits[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB"};
  auto size = static_cast<double>(bytes);
  size_t unit = 0;
  for (; size >= 1024 && unit + 1 < std::size(kUnits); ++unit)
    size /= 1024;
  return fmt::format("{:.4g} {}", size, kUnits[unit]);
}

std::string SpeedText(int64_t mbit_s) {
  if (mbit_s < 1000) return fmt::format("{} Mbit/s", mbit_s);
  return fmt::format("{:g} Gbit/s", static_cast<double>(mbit_s) / 1000);
}

void AddLine(int indent, std::string_view line, std::string* text) {
  text->append(static_cast<size_t>(indent), ' ');
  text->append(line);
  text->push_back('\n');
}

// Whether a node says nothing but its CPUs: a run of them is one line.
bool IsBareCore(const TopologyTree& tree) {
  return tree.kind == ObjectKind::kCore && tree.children.empty();
}

void AddChildren(const TopologyTree& tree, int indent, std::string* text);

// The cores from *index on that follow each other, and leaves it behind them.
void AddCores(const std::vector<TopologyTree>& children, size_t* index, int indent,
              std::string* text) {
  const TopologyObject* const first = children[*index].object;
  const TopologyObject* last = first;
  CpuSet cpus = first->cpus;
  for (++*index; *index < children.size() && IsBareCore(children[*index]) &&
                 children[*index].object->number == last->number + 1;
       ++*index) {
    last = children[*index].object;
    cpus = cpus | last->cpus;
  }
  const char* const plural = cpus.count() == 1 ? "" : "s";
  AddLine(indent,
          first == last
              ? fmt::format("core {}: CPU{} {}", first->number, plural, cpus.ToList())
              : fmt::format("cores {}-{}: CPUs {}", first->number, last->number, cpus.ToList()),
          text);
}

void AddObject(const TopologyTree& tree, int indent, std::string* text) {
  AddLine(indent,
          fmt::format("{}: CPU{} {}", ObjectText(tree.kind, *tree.object),
                      tree.object->cpus.count() == 1 ? "" : "s", tree.object->cpus.ToList()),
          text);
  AddChildren(tree, indent + kIndentStep, text);
}

void AddChildren(const TopologyTree& tree, int indent, std::string* text) {
  for (size_t i = 0; i < tree.children.size();) {
    if (IsBareCore(tree.children[i])) {
      AddCores(tree.children, &i, indent, text);
    } else {
      AddObject(tree.children[i++], indent, text);
    }
  }
}

void AddDistances(const Topology& topology, std::string* text) {
  if (topology.numa_distances.size() < 2) return;
  AddLine(0, "NUMA distances:", text);
  for (size_t i = 0; i < topology.numa_nodes.size(); ++i) {
    std::string row = fmt::format("{:>4}:", topology.numa_nodes[i].number);
    for (const int distance : topology.numa_distances[i])
      row += fmt::format("{:>4}", distance);
    AddLine(kIndentStep, row, text);
  }
}

void AddNetwork(const Topology& topology, std::string* text) {
  if (topology.network.empty()) return;
  AddLine(0, "network devices:", text);
  for (const NetworkDevice& device : topology.network) {
    AddLine(kIndentStep,
            DeviceText(device) + (device.numa_node == -1
                                      ? ", NUMA node not known"
                                      : fmt::format(", near NUMA node {}", device.numa_node)),
            text);
  }
}

}  // namespace

std::string ObjectText(ObjectKind kind, const TopologyObject& object) {
  std::string text = fmt::format("{} {}", ObjectKindName(kind), object.number);
  if (object.bytes != 0) text += ", " + SizeText(object.bytes);
  return text;
}

std::string DeviceText(const NetworkDevice& device) {
  std::string text =
      fmt::format("{}: {}, {}", device.name, device.kind,
                  device.speed_mbit_s == 0 ? "speed not known" : SpeedText(device.speed_mbit_s));
  if (!device.rdma.empty()) text += ", RDMA " + device.rdma;
  for (size_t i = device.pci.size(); i-- > 0;)
    text += (i + 1 == device.pci.size() ? ", PCI " : " behind ") + device.pci[i];
  return text;
}

std::string SummaryText(const Topology& topology) {
  constexpr const char* kPlurals[] = {"packages", "NUMA nodes", "L3 caches", "cores"};
  std::string text = topology.cpu_model.empty() ? "CPU not known" : topology.cpu_model;
  if (topology.hypervisor) text += " (virtual)";
  text += fmt::format(", {} CPU{}", topology.cpus.count(), topology.cpus.count() == 1 ? "" : "s");
  for (const ObjectKind kind : kObjectKinds) {
    const size_t count = topology.ObjectsOf(kind).size();
    text += fmt::format(", {} {}", count,
                        count == 1 ? ObjectKindName(kind) : kPlurals[static_cast<size_t>(kind)]);
  }
  return text;
}

std::string TopologyText(const Topology& topology) {
  std::string text;
  AddLine(0,
          fmt::format("{}: {}{}", topology.host.empty() ? "machine" : topology.host,
                      SummaryText(topology),
                      topology.source.empty() ? "" : "; from " + topology.source),
          &text);
  const absl::StatusOr<TopologyTree> tree = BuildTopologyTree(topology);
  WEFT_CHECK(tree.ok());
  AddChildren(*tree, kIndentStep, &text);
  for (const TopologyObject& node : topology.numa_nodes) {
    if (node.cpus.empty())
      AddLine(kIndentStep, ObjectText(ObjectKind::kNumaNode, node) + ": no CPUs", &text);
  }
  AddDistances(topology, &text);
  AddNetwork(topology, &text);
  return text;
}

}  // namespace weft
