// The processes of this node's ranks: starts them, signals them, has their output, reaps them.
//
//   Ranks ranks(options, *signals, guard, sinks);
//   WEFT_RETURN_IF_ERROR(ranks.StartAll(plan));
//   ranks.Signal(SIGTERM);
//   while (!ranks.AllExited()) ...                     // who looks notes in Rank::exit how one has ended
//   ranks.Reap();
//
// Ranks that ended stay unreaped until Reap(): their exit status can be read in /proc/<pid>/stat, which is how a peer learns by what
// its neighbour died, and no pid is given away while one of us might still signal it.
//
// Thread-safety: one thread, of a process that has no other, as a child sets its variables after fork. Owns the processes: the
// destructor kills those that are left, and reaps all. Borrows the rest.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include <poll.h>

#include "absl/status/status.h"
#include "cli/weftrun/job_plan.h"
#include "cli/weftrun/process_guard.h"
#include "cli/weftrun/rank.h"
#include "cli/weftrun/rank_binding.h"
#include "cli/weftrun/rank_output.h"
#include "cli/weftrun/run_options.h"
#include "cli/weftrun/signals.h"

namespace weft {

class Ranks {
 public:
  Ranks(const RunOptions& options, const Signals& signals, ProcessGuard* guard, const Sinks& sinks)
      : options_(options), signals_(signals), guard_(guard), sinks_(sinks) {}

  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  // One process for each rank.
  absl::Status StartAll(const JobPlan& plan);

  // One more process, for a rank that was lost; `rank_restart`: how often that has been done with it.
  absl::Status Start(const JobPlan& plan, int local_rank, int rank_restart);

  // All that were started, in that order. Grows while others point into it.
  std::deque<Rank>& processes() { return processes_; }

  bool empty() const { return processes_.empty(); }

  bool AllExited() const;

  // "ranks 0, 2".
  std::string StillRunning() const;

  // Each rank's process group.
  void Signal(int signal);
  // The ranks and not what they have started.
  void SignalAlone(int signal);

  void AddPollItems(std::vector<pollfd>* items) const;
  void ReadOutput();
  // When lines that have not ended are to be shown; INT64_MAX: none is.
  int64_t NextShowNs() const;
  void ShowUnfinished();
  // Nobody has the writing end of a pipe any more.
  bool OutputFinished() const;
  void CloseOutput();

  // Waits for all of them.
  void Reap();

 private:
  const RunOptions& options_;
  const Signals& signals_;
  ProcessGuard* const guard_;
  const Sinks sinks_;
  RankBinding binding_;  // constant once the ranks start
  std::deque<Rank> processes_;
};

}  // namespace weft
