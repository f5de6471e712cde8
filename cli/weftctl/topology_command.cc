// PrintTopology, DiffTopologySources.
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/status.h"
#include "base/text.h"
#include "cli/weftctl/commands.h"
#include "topology/binding.h"
#include "topology/cpu_set.h"
#include "topology/read_topology.h"
#include "topology/topology_diff.h"
#include "topology/topology_json.h"
#include "topology/topology_svg.h"
#include "topology/topology_text.h"

namespace weft {
namespace {

// Of a machine that is not this one all CPUs are there for its ranks.
absl::StatusOr<std::vector<CpuSet>> SharesOf(const TopologyArguments& arguments,
                                             const Topology& topology) {
  if (arguments.bind.empty()) return std::vector<CpuSet>();
  WEFT_ASSIGN_OR_RETURN(const ObjectKind kind, ReadBindingName(arguments.bind));
  return PlanBinding(topology, kind, arguments.ranks,
                     arguments.from.empty() ? CpuSet::OfThisThread() : topology.cpus);
}

absl::StatusOr<std::string> TopologyIn(const TopologyArguments& arguments, TopologyForm form) {
  WEFT_ASSIGN_OR_RETURN(const Topology topology, ReadTopologySource(arguments.from));
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
    absl::StatusOr<Topology> topology = ReadTopologySource(source);
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
