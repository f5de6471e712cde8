// Where in the world the launcher put this process: read from the environment, checked, not acted on.
//
//   WEFT_ASSIGN_OR_RETURN(LaunchEnvironment launch, ReadLaunchEnvironment());
//   launch.rank, launch.size, launch.launcher ("weftrun", "torchrun", "openmpi", "slurm", "pmi1", "none")
//
// The first launcher that left its variables counts, in this order: weftrun (WEFT_STORE), torchrun or
// anything that speaks its variables (RANK, WORLD_SIZE), Open MPI (OMPI_COMM_WORLD_*), Slurm's srun
// (SLURM_PROCID with SLURM_STEP_ID), PMI-1 (PMI_RANK); without any a world of one. Variables that
// contradict each other or are no numbers are errors that name each variable and its value; so is a world of one where PET_NNODES
// or PET_NPROC_PER_NODE say more, and neither weftrun nor torchrun has read them.
// docs/launch.md has the table.
// Thread-safety: any thread, as long as none changes the environment.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"

namespace weft {

struct LaunchEnvironment {
  std::string launcher;
  int rank = 0, size = 1, local_rank = 0, local_size = 1;
  std::string job_id;       // the same on all ranks, different for two jobs at a time; "" for PMI-1
  std::string master_host;  // where rank 0 listens if there are several nodes; "" if unknown
  int master_port = 0;      // 0 if unknown
  bool single_node = true;
  std::string store_address;  // of weftrun's store: "unix:@name" or "tcp:host:port"; else ""
  int pmi_fd = -1;            // PMI_FD under PMI-1
  std::string secret;         // of the job (job_secret.h); "" if none was given
};

// The value of a variable or nullptr. An empty value counts as none.
using EnvironmentGetter = std::function<const char*(const char* name)>;

absl::StatusOr<LaunchEnvironment> ReadLaunchEnvironment(const EnvironmentGetter& get);
// From the environment of this process.
absl::StatusOr<LaunchEnvironment> ReadLaunchEnvironment();

}  // namespace weft
