#include "topology/binding.h"

#include <cstddef>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "base/text.h"

namespace weft {
namespace {

absl::Status RefuseBinding(ObjectKind kind, std::string_view why) {
  return MakeError(WEFT_INVALID_ARGUMENT,
                   StrCat("binding ranks to ", BindingName(kind), ": ", why));
}

// The cores of `cpus`, each with those of its CPUs that are in there, in order; CPUs of no core by themselves.
std::vector<CpuSet> CoresWithin(const Topology& topology, const CpuSet& cpus) {
  std::vector<CpuSet> cores;
  CpuSet left = cpus;
  for (const TopologyObject& core : topology.cores) {
    CpuSet part = core.cpus & cpus;
    if (part.empty()) continue;
    left = left - part;
    cores.push_back(std::move(part));
  }
  for (const int cpu : left.Members()) {
    cores.emplace_back();
    cores.back().Add(cpu);
  }
  return cores;
}

// In the order of their cores.
std::vector<CpuSet> SingleCpus(const std::vector<CpuSet>& cores) {
  std::vector<CpuSet> cpus;
  for (const CpuSet& core : cores) {
    for (const int cpu : core.Members()) {
      cpus.emplace_back();
      cpus.back().Add(cpu);
    }
  }
  return cpus;
}

// `parts` in order, cut into `ranks` shares; none is empty.
std::vector<CpuSet> Cut(const std::vector<CpuSet>& parts, size_t ranks) {
  std::vector<CpuSet> shares(ranks);
  for (size_t rank = 0; rank < ranks; ++rank) {
    for (size_t i = rank * parts.size() / ranks; i < (rank + 1) * parts.size() / ranks; ++i)
      shares[rank] = shares[rank] | parts[i];
  }
  return shares;
}

// Of one object; none if its CPUs cannot be shared evenly.
std::vector<CpuSet> ShareObject(const Topology& topology, const CpuSet& cpus, size_t ranks) {
  const std::vector<CpuSet> cores = CoresWithin(topology, cpus);
  if (cores.size() >= ranks) return Cut(cores, ranks);
  const std::vector<CpuSet> single = SingleCpus(cores);
  if (single.size() >= ranks) return Cut(single, ranks);
  std::vector<CpuSet> shares;
  if (ranks % single.size() != 0) return shares;
  for (size_t rank = 0; rank < ranks; ++rank)
    shares.push_back(single[rank * single.size() / ranks]);
  return shares;
}

std::string Counted(size_t count, const char* name) {
  return StrCat(count, " ", name, count == 1 ? "" : "s");
}

}  // namespace

const char* BindingName(ObjectKind kind) {
  constexpr const char* kNames[] = {"package", "numa", "l3", "core"};
  return kNames[static_cast<size_t>(kind)];
}

absl::StatusOr<ObjectKind> ReadBindingName(std::string_view name) {
  for (const ObjectKind kind : kObjectKinds) {
    if (name == BindingName(kind)) return kind;
  }
  return MakeError(WEFT_INVALID_ARGUMENT, StrCat("ranks cannot be bound to \"", name,
                                                 "\", but to core, l3, numa or package"));
}

absl::StatusOr<std::vector<CpuSet>> PlanBinding(const Topology& topology, ObjectKind kind,
                                                int ranks, const CpuSet& allowed) {
  WEFT_CHECK(ranks > 0);
  std::vector<CpuSet> objects;
  for (const TopologyObject& object : topology.ObjectsOf(kind)) {
    CpuSet cpus = object.cpus & allowed;
    if (!cpus.empty()) objects.push_back(std::move(cpus));
  }
  const char* const name = ObjectKindName(kind);
  if (objects.empty()) {
    return RefuseBinding(
        kind, topology.ObjectsOf(kind).empty()
                  ? StrCat("the topology has no ", name)
                  : StrCat("no ", name, " has a CPU that this process may use, which are ",
                           allowed.empty() ? "none" : allowed.ToList()));
  }
  const auto wanted = static_cast<size_t>(ranks);
  std::vector<CpuSet> shares;
  if (wanted <= objects.size()) {
    for (size_t rank = 0; rank < wanted; ++rank)
      shares.push_back(objects[rank * objects.size() / wanted]);
    return shares;
  }
  const std::string counts = StrCat(wanted, " ranks and ", Counted(objects.size(), name));
  if (wanted % objects.size() != 0) {
    return RefuseBinding(kind, StrCat(counts, " in CPUs ", allowed.ToList(),
                                      ": they cannot be shared evenly; take a multiple, or no "
                                      "more ranks than there are, or bind to something else"));
  }
  const size_t sharing = wanted / objects.size();
  for (const CpuSet& object : objects) {
    std::vector<CpuSet> parts = ShareObject(topology, object, sharing);
    if (parts.empty()) {
      return RefuseBinding(kind, StrCat(counts, ": ", sharing, " ranks cannot share CPUs ",
                                        object.ToList(), " evenly"));
    }
    shares.insert(shares.end(), parts.begin(), parts.end());
  }
  return shares;
}

}  // namespace weft
