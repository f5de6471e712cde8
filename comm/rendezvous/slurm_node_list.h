// Two of Slurm's compressed notations.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace weft {

// The first host of a node list: "node[003-005,9],gpu1" -> "node003", "r[1-2]n[7-9]" -> "r1n7".
absl::StatusOr<std::string> FirstSlurmHost(std::string_view node_list);

// How many tasks node `node_index` has: "4(x2),3" -> 4, 4, 3.
absl::StatusOr<int> SlurmTasksOfNode(std::string_view tasks_per_node, int node_index);

}  // namespace weft
