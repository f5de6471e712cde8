// What lies in what: the objects of a topology as a tree.
//
//   WEFT_ASSIGN_OR_RETURN(const TopologyTree tree, BuildTopologyTree(topology));
//   for (const TopologyTree& package : tree.children) ...
//
// Of objects with the same CPUs the larger kind is outside: a package of one NUMA node contains it.
// Thread-safety: values; a tree points into its topology.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "topology/topology.h"

namespace weft {

struct TopologyTree {
  ObjectKind kind = ObjectKind::kPackage;
  const TopologyObject* object = nullptr;  // nullptr: the machine itself
  // By their first CPU; packages and NUMA nodes by number. Depth is bounded by the number of kinds.
  std::vector<TopologyTree> children;
};

// CORRUPT, with both, if two objects overlap and neither lies in the other, or two of one kind overlap. NUMA nodes without CPUs are
// in no tree.
absl::StatusOr<TopologyTree> BuildTopologyTree(const Topology& topology);

}  // namespace weft
