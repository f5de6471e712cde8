#include "cli/weftrun/rank_binding.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/log.h"
#include "base/status.h"
#include "topology/binding.h"
#include "topology/read_topology.h"

namespace weft {

absl::StatusOr<RankBinding> BindRanks(const RunOptions& options) {
  const int ranks = options.ranks_per_node;
  const CpuSet allowed = CpuSet::OfThisThread();
  if (!options.bind.has_value())
    return RankBinding(static_cast<size_t>(ranks), {.cpus = allowed, .ranks = ranks});
  WEFT_ASSIGN_OR_RETURN(const Topology topology, ReadTopology());
  WEFT_ASSIGN_OR_RETURN(const std::vector<CpuSet> shares,
                        PlanBinding(topology, *options.bind, ranks, allowed));
  RankBinding binding;
  for (size_t rank = 0; rank < shares.size(); ++rank) {
    LogInfo("local rank ", rank, " is bound to CPUs ", shares[rank].ToList(), " (",
            BindingName(*options.bind), ")");
    // Shares are equal or apart.
    const auto same = std::count(shares.begin(), shares.end(), shares[rank]);
    binding.push_back({.cpus = shares[rank], .ranks = static_cast<int>(same)});
  }
  return binding;
}

}  // namespace weft
