// Which CPUs each rank of this node runs on, and with how many others.
//
//   WEFT_ASSIGN_OR_RETURN(const RankBinding binding, BindRanks(options));
//   binding[local_rank].cpus
//
// Thread-safety: values.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "cli/weftrun/run_options.h"
#include "topology/cpu_set.h"

namespace weft {

struct RankPlace {
  CpuSet cpus;
  int ranks = 1;  // on these CPUs, itself among them
};

using RankBinding = std::vector<RankPlace>;  // by local rank

// By --bind, within the CPUs that weftrun itself may use; without it all of these for all ranks. Errors: ReadTopology's and
// PlanBinding's. The CPUs of each rank are logged at info.
absl::StatusOr<RankBinding> BindRanks(const RunOptions& options);

}  // namespace weft
