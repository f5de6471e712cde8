// Which CPUs each rank of a machine gets when ranks are bound to its packages, NUMA nodes, L3 caches or cores.
//
//   WEFT_ASSIGN_OR_RETURN(const std::vector<CpuSet> shares,
//                         PlanBinding(topology, ObjectKind::kNumaNode, /*ranks=*/8, CpuSet::OfThisThread()));
//   shares[local_rank]
//
// Thread-safety: pure functions.
#pragma once

#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "topology/cpu_set.h"
#include "topology/topology.h"

namespace weft {

// What a command line calls a kind: "package", "numa", "l3", "core".
const char* BindingName(ObjectKind kind);

// INVALID_ARGUMENT, with what there is, if none is called `name`.
absl::StatusOr<ObjectKind> ReadBindingName(std::string_view name);

// A share of CPUs per local rank, none empty, none with a CPU that is not in `allowed`. Objects count with the CPUs that are allowed, and not at
// all if none is.
//
// Of at least as many objects as ranks each rank gets one, spread over the machine: rank r of R the object r * objects / R. Of fewer
// objects each is for the same number of ranks, which follow each other, and they cut it into shares of whole cores (whole CPUs, if it has fewer
// cores than they are) that differ by one core at most. If it has fewer CPUs, too, each CPU is for the same number of them.
//
// INVALID_ARGUMENT, with the numbers, if there is no such object, or they cannot be shared so.
absl::StatusOr<std::vector<CpuSet>> PlanBinding(const Topology& topology, ObjectKind kind,
                                                int ranks, const CpuSet& allowed);

}  // namespace weft
