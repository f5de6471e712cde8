// Starts the process of one rank.
//
//   WEFT_ASSIGN_OR_RETURN(pid_t pid, SpawnRank(spec));
//
// The child leads a process group of its own, so that a terminal's ^C reaches it once, through
// weftrun; it dies with weftrun (PR_SET_PDEATHSIG); its stdin is weftrun's for rank 0 unless that is
// a terminal, /dev/null otherwise.
// Thread-safety: only from a process of one thread: the child sets variables before it executes.
#pragma once

#include <csignal>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

#include "absl/status/statusor.h"
#include "topology/cpu_set.h"

namespace weft {

struct RankSpec {
  int rank = 0;
  std::vector<std::string> program;
  std::vector<std::pair<std::string, std::string>> variables;  // set, replacing what is there
  std::vector<std::pair<std::string, std::string>> defaults;   // set if they are not
  std::vector<std::string> unset;
  int stdout_fd = -1;
  int stderr_fd = -1;
  int secret_fd = -1;         // inherited under the same number; -1: none
  sigset_t signal_mask = {};  // of the child
  CpuSet cpus;                // that it and all it starts may use; empty: those that weftrun may
};

// Of a program that cannot be started, the error's field exit_code is what the shell would answer: 127 if it was not found, 126
// if it could not be executed.
absl::StatusOr<pid_t> SpawnRank(const RankSpec& spec);

}  // namespace weft
