// The command line of weftrun, parsed and checked. What it does not say, torchrun's variables may (torchrun_variables.h).
//
//   absl::StatusOr<RunOptions> options = ParseRunOptions(argc, argv);
//
// Thread-safety: values.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "topology/topology.h"

namespace weft {

constexpr int kRanksPerNodeMax = 4096;
constexpr int kNodesMax = 1 << 16;
constexpr int kMasterPortMax = 65534;  // the store has the next one

struct RunOptions {
  int ranks_per_node = 1;  // of this node; others may have more or fewer
  int node_count = 1;
  int node_rank = 0;
  std::string master_host;         // "" on one node
  int master_port = 0;             // 0: a free one, on one node only
  int restarts_max = 0;            // of all ranks together; with elastic: of lost ranks, each alone
  bool elastic = false;            // a rank that fails is lost, and the others go on
  int ranks_min = 1;               // with elastic: so many at least
  int stop_grace_s = 120;          // for ranks that were asked to end, before they are ended
  std::string log_dir;             // "": no files
  std::optional<ObjectKind> bind;  // what ranks are bound to; none: they run anywhere
  std::vector<std::string> program;  // with its arguments
  std::string help;                  // not empty: print it and stop

  // How often all ranks may be started again together.
  int job_restarts_max() const { return elastic ? 0 : restarts_max; }
};

// INVALID_ARGUMENT with one line for the user if anything is wrong.
absl::StatusOr<RunOptions> ParseRunOptions(int argc, const char* const* argv);

}  // namespace weft
