// One start of all ranks of this node, from the first process to the last: relays their output,
// forwards signals, serves the store, and ends the rest when one fails.
//
//   Job job(options, std::move(plan), &signals, &stop, &guard, sinks, agents);
//   WEFT_RETURN_IF_ERROR(job.Start());
//   JobResult result = job.Run();
//
// On several nodes all begin when the weftruns of all have come, and a failure on one ends the ranks of all.
// After a failure the others have EndLadder::kGraceNs to say what they saw, then get SIGTERM, and SIGKILL
// kTermNs later. They have options.stop_grace_s instead if the first rank that ended had been asked to, which it says by its exit code:
// then they may be saving what they have, and there is no restart. A job that is asked to end itself (SIGINT, SIGTERM, SIGHUP) has as
// long, then the ranks that are left get SIGKILL; asked again (stop_requests.h), it ends at once. A rank that exits with
// ExitReport::kUnsaved has failed, and nothing starts again. All processes that a rank left in its process group are killed at the end.
// With --elastic a rank that fails is lost: the others go on, while enough are left, and the job's end is theirs. As long as
// there are restarts it is started again, alone, to join them; when they have ended and it has not, it gets SIGTERM and SIGKILL as above.
//
// Thread-safety: one thread. Owns the rank processes: none is left after Run() or the destructor.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "cli/weftrun/agents.h"
#include "cli/weftrun/elastic_ranks.h"
#include "cli/weftrun/end_ladder.h"
#include "cli/weftrun/first_ending.h"
#include "cli/weftrun/job_plan.h"
#include "cli/weftrun/process_guard.h"
#include "cli/weftrun/rank.h"
#include "cli/weftrun/ranks.h"
#include "cli/weftrun/run_options.h"
#include "cli/weftrun/signals.h"
#include "cli/weftrun/stop_requests.h"
#include "comm/rendezvous/store_server.h"

namespace weft {

struct JobResult {
  int exit_code = 0;     // of weftrun
  bool restart = false;  // there is another round: all ranks start again, if all nodes come to it
};

class Job {
 public:
  static constexpr int64_t kDrainNs = 1'000'000'000;
  static constexpr int64_t kLingerNs = 30'000'000'000;
  static constexpr int64_t kTellNs = 10'000'000'000;

  // `agents`: of a job on several nodes, else nullptr. It hosts the store.
  // `stop`: of all rounds.
  Job(const RunOptions& options, JobPlan plan, Signals* signals, StopRequests* stop,
      ProcessGuard* guard, const Sinks& sinks, Agents* agents);
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  // Opens the store and starts the ranks. On failure none is left.
  absl::Status Start();
  JobResult Run();

 private:
  absl::Status StartStore();
  absl::Status AwaitOtherNodes();
  absl::Status AskedToEnd(std::string_view when) const;
  void StartAgain(const Rank& lost);
  void Turn(int64_t wake_ns);
  void NoteJoined();
  void ObserveExits();
  void GiveUpNewcomers();
  bool MayLose(const Rank& rank) const;
  void NoteLost(Rank& rank, bool may_start);
  void NoteFirstFailure(Rank& rank);
  void HandleSignals();
  void Suspend();
  void NoteBrokenOutput();
  void HandleEndSignal(int signal);
  void DrainOutput();
  void HeedOtherNodes();
  void AwaitAllDone();
  void AgreeOnTheEnd();
  absl::Status EndBeforeTheStart(absl::Status why, int exit_code, std::string reason);
  void LingerForOtherNodes();

  StoreServer* store() { return agents_ != nullptr ? agents_->store() : store_.get(); }

  bool last_round() const;

  // A round after the first one that ends before its ranks have begun: the others hear of it when they come to it, from the end of the
  // round before.
  bool unbegun() const { return plan_.restart > 0 && ranks_.empty(); }

  // By which weftrun was told to end; 0: by none.
  int EndSignal() const;
  void FlushSinks();
  void Report();

  void Say(std::string_view line);
  JobResult Result() const;

  const RunOptions& options_;
  JobPlan plan_;  // constant once the nodes have met
  Signals* const signals_;
  StopRequests& stop_;
  const Sinks sinks_;
  Agents* const agents_;
  std::unique_ptr<StoreServer> store_;  // unless agents_ has it
  Ranks ranks_;
  EndLadder ladder_{options_, &ranks_, sinks_.err};
  ElasticRanks elastic_{options_, &ranks_.processes()};
  FirstEnding first_ending_{&ranks_.processes()};
  bool output_lost_ = false;  // so the ranks were ended
};

}  // namespace weft
