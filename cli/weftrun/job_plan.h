// What one start of a job has of its own: its name, its secret, where its store listens, and the
// variables that tell a rank about it.
//
//   WEFT_ASSIGN_OR_RETURN(JobPlan plan, PlanJob(options, /*restart=*/0, ""));
//   plan.VariablesOf(local_rank, /*rank_restart=*/0, options)
//
// Thread-safety: values.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/fd.h"
#include "base/net.h"
#include "cli/weftrun/run_options.h"

namespace weft {

using Variables = std::vector<std::pair<std::string, std::string>>;

// The ranks of a node among those of all nodes, which may have different numbers of them.
struct NodePlace {
  int first_rank = 0;
  int size = 1;  // of the world
};

struct JobPlan {
  std::string job_name;  // of all starts
  std::string job_id;    // of this start: the name, and "-restart2"
  int restart = 0;
  std::string secret;  // "" only with WEFT_INSECURE=1
  UniqueFd secret_fd;  // holds the secret, invalid without one
  Endpoint store;      // where node 0 listens
  std::string master_host;
  int master_port = 0;
  NodePlace place;  // on several nodes only when they have met

  // Of the rank on this node, in addition to weftrun's own environment. `rank_restart`: how often it has been started again
  // alone; then it joins the others.
  Variables VariablesOf(int local_rank, int rank_restart, const RunOptions& options) const;
};

// Variables that are set for ranks where the user has not: threads per rank, quiet waiting. `ranks` of them run on `cpus` CPUs.
Variables DefaultVariables(int cpus, int ranks);

// Makes the name and the secret; on several nodes takes the secret from WEFT_JOB_SECRET_FILE, because
// all nodes must have the same, and waits for the master's name to be known. `job_name`: of an earlier start; "": this is the first.
absl::StatusOr<JobPlan> PlanJob(const RunOptions& options, int restart,
                                const std::string& job_name);

}  // namespace weft
