// Whatever a Job waits for, it waits in Turn(), where output is relayed, signals are taken and the store answers: a rank whose
// pipe is full or whose question is not answered would seem to hang. Ranks are reaped last: until then their pids are ours to
// signal, and peers can read in /proc how they ended. Phases go forward only, from asking to killing.
#include "cli/weftrun/job.h"

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/notice_times.h"
#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"

namespace weft {
namespace {

// What to do about ranks that have ended since the last look. One that could not write what it had to says most: nothing may hide
// that. Then one that was asked to end, for then the job is; a crash explains more than the exit of one that noticed it.
int WeightOf(const ExitReport& exit) {
  if (exit.unsaved()) return 3;
  return exit.asked() ? 2 : (exit.signal != 0 ? 1 : 0);
}

}  // namespace

Job::Job(const RunOptions& options, JobPlan plan, Signals* signals, StopRequests* stop,
         ProcessGuard* guard, const Sinks& sinks, Agents* agents)
    : options_(options),
      plan_(std::move(plan)),
      signals_(signals),
      stop_(*stop),
      sinks_(sinks),
      agents_(agents),
      ranks_(options, *signals, guard, sinks) {}

absl::Status Job::Start() {
  if (!options_.log_dir.empty() && mkdir(options_.log_dir.c_str(), 0777) != 0 && errno != EEXIST) {
    return SystemError(errno, StrCat("making the log directory ", options_.log_dir));
  }
  HandleSignals();  // of the time before, or between two rounds
  if (plan_.restart > 0 && EndSignal() == 0)
    Say(StrCat("restart ", plan_.restart, " of at most ", options_.job_restarts_max()));
  if (agents_ == nullptr) {
    if (EndSignal() != 0) return AskedToEnd("before the ranks were started");
    WEFT_RETURN_IF_ERROR(StartStore());
    return ranks_.StartAll(plan_);
  }
  agents_->BeginRound(plan_.restart);
  absl::Status met = AwaitOtherNodes();
  const std::string self = StrCat("node ", options_.node_rank);
  if (!met.ok() && EndSignal() == 0) {
    return EndBeforeTheStart(std::move(met), 1, StrCat(self, " could not meet the other nodes"));
  }
  if (!met.ok()) {
    const std::string reason =
        StrCat(self, " got ", SignalName(EndSignal()), " before all nodes had come");
    return EndBeforeTheStart(std::move(met), 128 + EndSignal(), reason);
  }
  plan_.place = agents_->place();
  absl::Status started = ranks_.StartAll(plan_);
  if (started.ok()) return started;
  return EndBeforeTheStart(std::move(started), 1, StrCat(self, " could not start its ranks"));
}

absl::Status Job::EndBeforeTheStart(absl::Status why, int exit_code, std::string reason) {
  ranks_.Signal(SIGKILL);
  agents_->SayFailed({.exit_code = exit_code, .reason = std::move(reason)});
  AgreeOnTheEnd();
  LingerForOtherNodes();
  return why;
}

// The ranks of all nodes start together, so that none meets one of the round before.
absl::Status Job::AwaitOtherNodes() {
  NoticeTimes notices(MonotonicNs());
  while (!agents_->may_start() && agents_->failure().ok() && !agents_->verdict().has_value() &&
         EndSignal() == 0) {
    Turn(notices.next_ns());
    if (agents_->may_start() || !agents_->failure().ok()) continue;
    if (const int64_t waited_s = notices.Due(MonotonicNs()); waited_s > 0)
      Say(agents_->Waiting(waited_s));
  }
  if (agents_->verdict().has_value()) {
    return MakeError(WEFT_REMOTE_ERROR, {.exit_code = agents_->verdict()->exit_code},
                     StrCat("failed first: ", agents_->verdict()->reason));
  }
  if (EndSignal() == 0) return agents_->failure();
  return AskedToEnd(StrCat("while waiting for ", agents_->Missing()));
}

// Nothing had begun.
absl::Status Job::AskedToEnd(std::string_view when) const {
  const int signal = EndSignal();
  return MakeError(WEFT_ABORTED, {.exit_code = 128 + signal},
                   StrCat(SignalName(signal), " ", when));
}

absl::Status Job::StartStore() {
  store_ = std::make_unique<StoreServer>(
      SystemSeams(), StoreServerOptions{.secret = plan_.secret,
                                        .insecure = plan_.secret.empty(),
                                        .uid = static_cast<int64_t>(geteuid())});
  Endpoint endpoint = plan_.store;
  return Annotate(store_->AddListener(&endpoint),
                  StrCat("opening the job's store at ", plan_.store.ToString(), ": "));
}

JobResult Job::Run() {
  while (!ranks_.AllExited()) {
    Turn(std::min(ladder_.wake_ns(), elastic_.give_up_ns()));
    NoteJoined();
    ObserveExits();
    GiveUpNewcomers();
    HeedOtherNodes();
    NoteBrokenOutput();
    ladder_.Climb();
  }
  DrainOutput();
  AwaitAllDone();
  AgreeOnTheEnd();
  LingerForOtherNodes();
  ranks_.Reap();
  Report();
  FlushSinks();
  return Result();
}

// One round of the loop: waits for something to do until `wake_ns` and does it.
void Job::Turn(int64_t wake_ns) {
  wake_ns = std::min(wake_ns, ranks_.NextShowNs());
  std::vector<pollfd> items = {{signals_->fd(), POLLIN, 0}};
  ranks_.AddPollItems(&items);
  for (const OutputSink* sink : {sinks_.out, sinks_.err}) {
    if (sink->pending()) items.push_back({sink->fd(), POLLOUT, 0});
  }
  if (store() != nullptr || agents_ != nullptr) {
    std::vector<PollItem> store_items;
    if (store() != nullptr) {
      store()->AppendPollItems(&store_items);
      wake_ns = std::min(wake_ns, store()->NextWakeNs());
    }
    if (agents_ != nullptr) {
      agents_->AppendPollItems(&store_items);
      wake_ns = std::min(wake_ns, agents_->NextWakeNs());
    }
    for (const PollItem& item : store_items) {
      const int events = (item.want_read ? POLLIN : 0) | (item.want_write ? POLLOUT : 0);
      items.push_back({item.handle, static_cast<short>(events), 0});
    }
  }
  const int64_t left_ns = std::max<int64_t>(wake_ns - MonotonicNs(), 0);
  // Rounded up, so that the deadline has passed when poll() returns; an hour is as good as forever.
  const int64_t left_ms = std::min<int64_t>(left_ns / 1'000'000 + (left_ns > 0), 3'600'000);
  if (poll(items.data(), items.size(), static_cast<int>(left_ms)) < 0 && errno != EINTR) {
    LogError("the loop of weftrun: ", FromAbsl(SystemError(errno, "poll").message()));
  }
  HandleSignals();
  ranks_.ReadOutput();
  ranks_.ShowUnfinished();
  sinks_.out->Flush();
  sinks_.err->Flush();
  if (store() != nullptr) store()->Step();
  if (agents_ != nullptr) agents_->Step();
}

void Job::ObserveExits() {
  Rank* culprit = nullptr;
  std::vector<Rank*> lost;
  for (Rank& rank : ranks_.processes()) {
    if (rank.exit.has_value()) continue;
    rank.exit = PeekExit(rank.pid);
    if (!rank.failed()) continue;
    if (rank.exit->signal == SIGKILL && !ladder_.killed())
      rank.exit->oom_kills = rank.oom_kills.Since();
    if (MayLose(rank)) {
      lost.push_back(&rank);
      continue;
    }
    if (culprit == nullptr || WeightOf(*rank.exit) > WeightOf(*culprit->exit)) culprit = &rank;
  }
  for (Rank* rank : lost)
    NoteLost(*rank, /*may_start=*/culprit == nullptr && !rank->exit->concludes());
  if (culprit != nullptr && first_ending_.none()) NoteFirstFailure(*culprit);
}

// Of one that has failed: whether the others go on. Who asks a rank to end means the job.
bool Job::MayLose(const Rank& rank) const {
  if (rank.waiting()) return true;
  if (rank.exit->concludes()) return false;
  return options_.elastic && ladder_.idle() && first_ending_.none() && elastic_.EnoughLeft();
}

void Job::NoteLost(Rank& rank, bool may_start) {
  rank.lost = true;
  if (!ladder_.idle() || !first_ending_.none()) return;
  const bool again = may_start && elastic_.TakeRestart();
  Say(elastic_.LostText(rank, again));
  if (again) StartAgain(rank);
}

void Job::StartAgain(const Rank& lost) {
  // What it left running would be in the way of the new process: it may hold ports and memory.
  kill(-lost.pid, SIGKILL);
  const absl::Status started = ranks_.Start(plan_, lost.local_rank, lost.restart + 1);
  if (started.ok()) return;
  Say(StrCat("rank ", lost.rank,
             " stays lost, it cannot be started again: ", FromAbsl(started.message())));
}

// Before the exits are looked at: one that has joined and failed since is a rank like the others.
void Job::NoteJoined() {
  if (!options_.elastic) return;
  for (const Rank* rank : elastic_.TakeJoined(*store_)) {
    Say(StrCat(rank->WithPid(), " has joined; ", elastic_.left_count(), " of ", plan_.place.size,
               " ranks are there"));
  }
}

// After the exits were looked at: the last one of the others may be among them.
void Job::GiveUpNewcomers() {
  if (!ladder_.idle() && !ladder_.stopping()) return;
  const std::vector<const Rank*> given_up = elastic_.TakeGivenUp(MonotonicNs());
  for (const Rank* rank : given_up)
    Say(StrCat(rank->WithPid(), " waited to join, but all others have ended"));
  if (!given_up.empty()) ladder_.EndAfter(0);
}

void Job::NoteFirstFailure(Rank& rank) {
  // Something on another node was first.
  if (agents_ != nullptr && (agents_->verdict().has_value() || !agents_->failure().ok())) return;
  first_ending_.Note(rank, /*look=*/ladder_.idle());
  const bool asked = first_ending_.asked();
  if (agents_ != nullptr) {
    agents_->SayFailed(
        {.exit_code = rank.exit->shell_code(),
         .restart = EndSignal() == 0 && !rank.exit->concludes(),
         .asked = asked,
         .reason = first_ending_.Text(StrCat(" on node ", options_.node_rank), /*pids=*/false)});
  }
  if (ranks_.AllExited() || !ladder_.idle()) return;
  Say(StrCat(first_ending_.Text("", /*pids=*/true), "; the others have ",
             asked ? options_.stop_grace_s : EndLadder::kGraceNs / 1'000'000'000,
             " s to end by themselves"));
  if (asked) return ladder_.AwaitStop();
  ladder_.EndAfter(EndLadder::kGraceNs);
}

void Job::NoteBrokenOutput() {
  if (!sinks_.out->broken() || !ladder_.idle()) return;
  output_lost_ = true;
  Say(sinks_.out->error() == EPIPE
          ? "the reader of the output has gone; ending the ranks"
          : StrCat(FromAbsl(SystemError(sinks_.out->error(), "writing the output").message()),
                   "; ending the ranks"));
  ladder_.EndAfter(0);
}

void Job::HandleSignals() {
  while (const int signal = signals_->Next()) {
    switch (signal) {
      case SIGCHLD:
        break;
      case SIGTSTP:
        Suspend();
        break;
      case SIGCONT:
        ranks_.Signal(SIGCONT);
        break;
      case SIGUSR1:
      case SIGUSR2:
        // For the program alone: they end whatever did not ask for them.
        ranks_.SignalAlone(signal);
        break;
      default:
        HandleEndSignal(signal);
        break;
    }
  }
}

// Who asks twice does not want to wait. Ranks that are ending after a failure have their own times. A signal that the ranks have is
// not sent again: a program that saves when it gets one may well end at once when it gets another.
void Job::HandleEndSignal(int signal) {
  const int before = stop_.signal();
  const StopRequests::Kind kind = stop_.Note(signal, MonotonicNs());
  if (kind == StopRequests::Kind::kRepeat || ladder_.killed()) return;
  if (kind == StopRequests::Kind::kNew && stop_.count() > 1) {
    return ladder_.Kill(
        StrCat("killing the ranks: ", SignalName(signal), " after ", SignalName(before)));
  }
  ranks_.Signal(signal);
  if (ladder_.idle()) ladder_.Ask(signal);
}

void Job::Suspend() {
  ranks_.Signal(SIGTSTP);
  raise(SIGSTOP);
}

// Every rank has exited. What they started may still hold their pipes: it gets a moment, then goes.
void Job::DrainOutput() {
  const int64_t deadline_ns = MonotonicNs() + kDrainNs;
  while (!ranks_.OutputFinished() && MonotonicNs() < deadline_ns)
    Turn(deadline_ns);
  ranks_.Signal(SIGKILL);
  const int64_t last_ns = MonotonicNs() + kDrainNs / 4;
  while (!ranks_.OutputFinished() && MonotonicNs() < last_ns)
    Turn(last_ns);
  ranks_.CloseOutput();
}

// What other nodes say ends the ranks here too.
void Job::HeedOtherNodes() {
  if (agents_ == nullptr || !ladder_.idle() || !first_ending_.none()) return;
  if (!agents_->failure().ok()) {
    Say(FromAbsl(agents_->failure().message()));
  } else if (agents_->verdict().has_value()) {
    Say(agents_->verdict()->reason);
  } else {
    return;
  }
  const bool asked = agents_->verdict().has_value() && agents_->verdict()->asked;
  Say(StrCat("the ranks of this node have ",
             asked ? options_.stop_grace_s : EndLadder::kGraceNs / 1'000'000'000,
             " s to end by themselves"));
  if (asked) return ladder_.AwaitStop();
  ladder_.EndAfter(EndLadder::kGraceNs);
}

// The ranks of this node have ended well; those of other nodes may still fail.
void Job::AwaitAllDone() {
  if (agents_ == nullptr || !first_ending_.none() || agents_->verdict().has_value()) return;
  agents_->SayDone();
  const int64_t say_ns = MonotonicNs() + EndLadder::kSayWaitingNs;
  bool said = false;
  while (!agents_->verdict().has_value() && agents_->failure().ok() && EndSignal() == 0) {
    Turn(said ? INT64_MAX : say_ns);
    if (said || MonotonicNs() < say_ns) continue;
    Say("the ranks of this node have ended well; waiting for the weftrun of other nodes");
    said = true;
  }
}

// Until what this node said has been heard and, if there may be a restart, the end of the round is
// known here.
void Job::AgreeOnTheEnd() {
  if (agents_ == nullptr) return;
  // Ranks of other nodes that were asked to end as well may take as long.
  const int64_t asked_ns =
      EndSignal() == 0 || unbegun() ? 0 : int64_t{options_.stop_grace_s} * 1'000'000'000;
  const int64_t deadline_ns = MonotonicNs() + kTellNs + asked_ns;
  const auto agreed = [&] {
    return agents_->heard() && (agents_->verdict().has_value() || (EndSignal() != 0 && !unbegun()));
  };
  while (!agreed() && agents_->failure().ok() && MonotonicNs() < deadline_ns && stop_.count() < 2)
    Turn(deadline_ns);
  if (last_round()) agents_->Leave();
}

// No restart follows.
bool Job::last_round() const {
  if (agents_ == nullptr) {
    return first_ending_.concludes() || plan_.restart == options_.job_restarts_max();
  }
  return plan_.restart == options_.job_restarts_max() || !agents_->verdict().has_value() ||
         !agents_->verdict()->restart;
}

// Ranks and weftruns of other nodes may still need the store that lives here.
void Job::LingerForOtherNodes() {
  if (agents_ == nullptr || store() == nullptr || !last_round()) return;
  // After a failure until the last of the ranks must have ended: the end of the store would hide from them what it was.
  const bool well = agents_->verdict().has_value() && agents_->verdict()->exit_code == 0;
  const bool asked = agents_->verdict().has_value() && agents_->verdict()->asked;
  const int64_t grace_ns =
      asked ? int64_t{options_.stop_grace_s} * 1'000'000'000 : EndLadder::kGraceNs;
  const int64_t linger_ns = well ? kLingerNs : grace_ns + EndLadder::kTermNs;
  const int64_t deadline_ns = MonotonicNs() + (unbegun() ? Agents::kReadyNs : linger_ns);
  // One more request ends this wait.
  const int heard = stop_.count();
  const auto needed = [&] {
    return store()->client_count() > 0 || (unbegun() && !agents_->AllLeft());
  };
  while (needed() && stop_.count() == heard && MonotonicNs() < deadline_ns)
    Turn(deadline_ns);
}

void Job::FlushSinks() {
  sinks_.out->Flush();
  sinks_.err->Flush();
  // As long as it takes, as with any program whose output nobody reads; a second signal ends it.
  while ((sinks_.out->pending() || sinks_.err->pending()) && stop_.count() < 2)
    Turn(INT64_MAX);
}

void Job::Report() {
  const int signal = EndSignal();
  if (first_ending_.none()) {
    if (agents_ != nullptr && agents_->verdict().has_value() &&
        agents_->verdict()->exit_code != 0) {
      Say(StrCat(agents_->verdict()->asked ? "" : "failed first: ", agents_->verdict()->reason));
      for (const std::string& line : first_ending_.WordsOf(agents_->verdict()->exit_code))
        Say(line);
      Say(StrCat("the ranks of this node: ", first_ending_.Others()));
      return;
    }
    const std::string after = signal == 0 ? "" : StrCat(" after ", SignalName(signal));
    const std::string lost = elastic_.EndText(after);
    if (!lost.empty()) return Say(lost);
    if (signal != 0) Say(StrCat("all ranks ended well", after));
    return;
  }
  const std::string after =
      signal == 0 ? "" : StrCat(", after ", SignalName(signal), " to weftrun");
  for (const std::string& line : first_ending_.Report(after))
    Say(line);
}

void Job::Say(std::string_view line) {
  sinks_.err->Append("weftrun: ", StrCat(line, "\n"));
}

int Job::EndSignal() const {
  return output_lost_ ? SIGPIPE : stop_.signal();
}

JobResult Job::Result() const {
  JobResult result;
  if (!first_ending_.none()) {
    result.exit_code = first_ending_.exit_code();
  } else if (agents_ != nullptr) {
    const std::optional<RoundEnd>& verdict = agents_->verdict();
    // Asked to end, all ranks of this node did: whoever had the store may have done so first.
    if (!agents_->failure().ok() && EndSignal() == 0) result.exit_code = 1;
    if (verdict.has_value()) result.exit_code = verdict->exit_code;
    if (verdict.has_value() && verdict->asked && first_ending_.unsaved())
      result.exit_code = ExitReport::kUnsaved;
  }
  if (sinks_.out->broken()) result.exit_code = sinks_.out->error() == EPIPE ? 128 + SIGPIPE : 1;
  // The weftruns of other nodes wait for this one, if only to hear that it was asked to end.
  const bool to_tell = agents_ != nullptr && agents_->failure().ok() && stop_.count() > 0;
  result.restart = result.exit_code != 0 && !last_round() && (EndSignal() == 0 || to_tell);
  return result;
}

}  // namespace weft
