// PrintTopology, DiffTopologySources.
#include <cerrno>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>

#include "base/fd.h"
#include "base/file.h"
#include "base/new_fd.h"
#include "base/status.h"
#include "base/text.h"
#include "cli/weftctl/commands.h"
#include "cli/weftctl/lstopo_xml.h"
#include "topology/binding.h"
#include "topology/cpu_set.h"
#include "topology/hwloc_topology.h"
#include "topology/read_topology.h"
#include "topology/sysfs_topology.h"
#include "topology/topology_diff.h"
#include "topology/topology_json.h"
#include "topology/topology_svg.h"
#include "topology/topology_text.h"

namespace weft {
namespace {

// "" is the topology that weft goes by, "sysfs" and "hwloc" are this machine as either tells it, anything else is a file.
absl::StatusOr<Topology> ReadTopologyFrom(const std::string& from) {
  if (from.empty()) return ReadTopology();
  if (from == "sysfs") return ReadSysfsTopology("");
  if (from == "hwloc") return ReadHwlocTopology();
  const UniqueFd fd = OpenFile(from, O_RDONLY | O_NONBLOCK);
  if (!fd.valid()) return SystemError(errno, StrCat("opening ", from));
  WEFT_ASSIGN_OR_RETURN(const std::string text,
                        ReadFile(fd.get(), kLstopoBytesMax + 1, StrCat("reading ", from)));
  // JSON begins with a brace.
  const size_t begin = text.find_first_not_of(" \t\r\n");
  const bool xml = begin != std::string::npos && text[begin] == '<';
  absl::StatusOr<Topology> topology = xml ? ReadLstopoXml(text) : TopologyFromJson(text);
  if (!topology.ok()) return Annotate(topology.status(), from + ": ");
  return topology;
}

// Of a machine that is not this one all CPUs are there for its ranks.
absl::StatusOr<std::vector<CpuSet>> SharesOf(const TopologyArguments& arguments,
                                             const Topology& topology) {
  if (arguments.bind.empty()) return std::vector<CpuSet>();
  WEFT_ASSIGN_OR_RETURN(const ObjectKind kind, ReadBindingName(arguments.bind));
  return PlanBinding(topology, kind, arguments.ranks,
                     arguments.from.empty() ? CpuSet::OfThisThread() : topology.cpus);
}

absl::StatusOr<std::string> TopologyIn(const TopologyArguments& arguments, TopologyForm form) {
  WEFT_ASSIGN_OR_RETURN(const Topology topology, ReadTopologyFrom(arguments.from));
  WEFT_ASSIGN_OR_RETURN(const std::vector<CpuSet> shares, SharesOf(arguments, topology));
  if (form == TopologyForm::kJson) return TopologyAsJson(topology);
  if (form == TopologyForm::kSvg) return TopologyAsSvg(topology, shares);
  std::string text = TopologyText(topology);
  if (!shares.empty()) text += fmt::format("ranks bound to {}:\n", arguments.bind);
  for (size_t rank = 0; rank < shares.size(); ++rank)
    text += fmt::format("  rank {}: CPUs {}\n", rank, shares[rank].ToList());
  return text;
}

}  // namespace

CommandOutput PrintTopology(const TopologyArguments& arguments, TopologyForm form) {
  absl::StatusOr<std::string> text = TopologyIn(arguments, form);
  if (!text.ok()) return {"", {std::string(text.status().message())}};
  return {*std::move(text), {}};
}

CommandOutput DiffTopologySources(const std::string& before, const std::string& after) {
  CommandOutput output;
  std::vector<Topology> both;
  for (const std::string& source : {before, after}) {
    absl::StatusOr<Topology> topology = ReadTopologyFrom(source);
    if (topology.ok()) {
      both.push_back(*std::move(topology));
    } else {
      output.problems.emplace_back(topology.status().message());
    }
  }
  if (both.size() != 2) return output;
  for (const std::string& line : DiffTopologies(both.front(), both.back()))
    output.text += line + "\n";
  output.differs = !output.text.empty();
  return output;
}

}  // namespace weft
