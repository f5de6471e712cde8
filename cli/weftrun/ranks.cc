#include "cli/weftrun/ranks.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>

#include <sys/wait.h>

#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"
#include "cli/weftrun/rank_process.h"

namespace weft {

Ranks::~Ranks() {
  Signal(SIGKILL);
  Reap();
}

absl::Status Ranks::StartAll(const JobPlan& plan) {
  WEFT_ASSIGN_OR_RETURN(binding_, BindRanks(options_));
  for (int local_rank = 0; local_rank < options_.ranks_per_node; ++local_rank) {
    WEFT_RETURN_IF_ERROR(Start(plan, local_rank, /*rank_restart=*/0));
  }
  return absl::OkStatus();
}

absl::Status Ranks::Start(const JobPlan& plan, int local_rank, int rank_restart) {
  Rank rank;
  rank.rank = plan.place.first_rank + local_rank;
  rank.local_rank = local_rank;
  rank.restart = rank_restart;
  std::string log_path;
  if (!options_.log_dir.empty()) {
    log_path = StrCat(options_.log_dir, "/rank", rank.rank);
    const int restart = plan.restart + rank_restart;
    if (restart > 0) log_path += StrCat(".restart", restart);
  }
  WEFT_ASSIGN_OR_RETURN(rank.output, RankOutput::Open(rank.rank, log_path, sinks_));
  RankSpec spec;
  spec.rank = rank.rank;
  spec.program = options_.program;
  spec.variables = plan.VariablesOf(local_rank, rank_restart, options_);
  const RankPlace& place = binding_[static_cast<size_t>(local_rank)];
  spec.defaults = DefaultVariables(place.cpus.count(), place.ranks);
  if (options_.bind.has_value()) spec.cpus = place.cpus;
  // Of a launcher around weftrun; here they would claim a store, or a group, that does not exist.
  spec.unset = {"TORCHELASTIC_USE_AGENT_STORE", "WEFT_JOB_SECRET_FILE", "WEFT_JOIN"};
  spec.stdout_fd = rank.output->child_end(0);
  spec.stderr_fd = rank.output->child_end(1);
  spec.secret_fd = plan.secret_fd.get();
  spec.signal_mask = signals_.original_mask();
  WEFT_ASSIGN_OR_RETURN(rank.pid, SpawnRank(spec));
  guard_->Add(rank.pid);
  rank.oom_kills = OomKills("", std::to_string(rank.pid));
  rank.output->CloseChildEnds();
  processes_.push_back(std::move(rank));
  return absl::OkStatus();
}

bool Ranks::AllExited() const {
  return std::all_of(processes_.begin(), processes_.end(),
                     [](const Rank& rank) { return rank.exit.has_value(); });
}

std::string Ranks::StillRunning() const {
  std::string list;
  for (const Rank& rank : processes_) {
    if (!rank.exit.has_value()) list += StrCat(list.empty() ? "" : ", ", rank.Label());
  }
  return StrCat(list.find(',') == std::string::npos ? "rank " : "ranks ", list);
}

// Unreaped processes keep their pid and group, so none of these numbers can belong to a stranger.
void Ranks::Signal(int signal) {
  for (const Rank& rank : processes_) {
    if (rank.pid > 0) kill(-rank.pid, signal);
  }
}

void Ranks::SignalAlone(int signal) {
  for (const Rank& rank : processes_) {
    if (rank.pid > 0) kill(rank.pid, signal);
  }
}

void Ranks::AddPollItems(std::vector<pollfd>* items) const {
  for (const Rank& rank : processes_)
    rank.output->AddPollItems(items);
}

void Ranks::ReadOutput() {
  for (Rank& rank : processes_)
    rank.output->Read();
}

int64_t Ranks::NextShowNs() const {
  int64_t next_ns = INT64_MAX;
  for (const Rank& rank : processes_)
    next_ns = std::min(next_ns, rank.output->NextShowNs());
  return next_ns;
}

void Ranks::ShowUnfinished() {
  const int64_t now_ns = MonotonicNs();
  for (Rank& rank : processes_)
    rank.output->ShowUnfinished(now_ns);
}

bool Ranks::OutputFinished() const {
  return std::all_of(processes_.begin(), processes_.end(),
                     [](const Rank& rank) { return rank.output->Finished(); });
}

void Ranks::CloseOutput() {
  for (Rank& rank : processes_)
    rank.output->Close();
}

void Ranks::Reap() {
  for (Rank& rank : processes_) {
    if (rank.pid <= 0) continue;
    guard_->Remove(rank.pid);
    while (waitpid(rank.pid, nullptr, 0) < 0 && errno == EINTR) {
    }
    rank.pid = -1;
  }
}

}  // namespace weft
