// A topology as a drawing: boxes in boxes, an SVG document that any browser shows.
//
//   WriteFile("machine.svg", TopologyAsSvg(topology, shares));
//
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <vector>

#include "topology/cpu_set.h"
#include "topology/topology.h"

namespace weft {

// What lies in what, sizes, CPUs of each core, network devices in the NUMA node that they are near to. `shares`: of ranks that
// PlanBinding has bound; cores show whose they are. `topology` as CompleteTopology leaves it.
std::string TopologyAsSvg(const Topology& topology, const std::vector<CpuSet>& shares = {});

}  // namespace weft
