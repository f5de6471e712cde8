// One process of a rank, from its start to the end of the job. A rank that was lost and started again has several, one after another.
//
//   Rank rank{.rank = 2};
//   StrCat("rank ", rank.Label(), " ", rank.exit->ToString())   // "rank 2 (restart 1) exited with code 1"
//
// Thread-safety: a value of one thread.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include <sys/types.h>

#include "base/cgroup.h"
#include "base/process_state.h"
#include "base/text.h"
#include "cli/weftrun/exit_report.h"
#include "cli/weftrun/rank_output.h"

namespace weft {

struct Rank {
  int rank = 0;
  int local_rank = 0;
  int restart = 0;  // how often this rank, alone, had been started again when this process began
  pid_t pid = -1;
  std::unique_ptr<RankOutput> output;
  OomKills oom_kills;
  ProcessState state = ProcessState::kNotKnown;  // when the first rank failed
  std::optional<ExitReport> exit;
  bool lost = false;      // it failed, and the others went on
  bool joined = false;    // the group that runs has taken this newcomer in
  bool given_up = false;  // it waited for that, and nobody was left to do it

  // A newcomer that is not in the group: the others can do without it.
  bool waiting() const { return restart > 0 && !joined; }

  bool failed() const { return exit.has_value() && exit->failed(); }

  // "rank 2 (pid 4711)".
  std::string WithPid() const { return StrCat("rank ", rank, " (pid ", pid, ")"); }

  // "2", "2 (restart 1)": tells processes of one rank apart.
  std::string Label() const {
    return restart == 0 ? StrCat(rank) : StrCat(rank, " (restart ", restart, ")");
  }
};

}  // namespace weft
