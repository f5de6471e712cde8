// Where two topologies differ: two nodes of a cluster, or a machine and the file that was made of it.
//
//   for (const std::string& line : DiffTopologies(before, after)) puts(line.c_str());
//
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <vector>

#include "topology/topology.h"

namespace weft {

// A line per difference: "- " and what only `before` has, "+ " and what only `after` has. None if the machines are alike, whatever their names,
// and whoever has looked.
std::vector<std::string> DiffTopologies(const Topology& before, const Topology& after);

}  // namespace weft
