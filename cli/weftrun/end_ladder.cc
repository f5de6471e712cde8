#include "cli/weftrun/end_ladder.h"

#include <algorithm>
#include <csignal>

#include "base/text.h"
#include "base/wait.h"

namespace weft {

void EndLadder::EndAfter(int64_t grace_ns) {
  Enter(Phase::kGrace, grace_ns);
}

void EndLadder::AwaitStop() {
  EnterStop(Phase::kStopping);
}

void EndLadder::Ask(int signal) {
  signal_ = signal;
  EnterStop(Phase::kAsked);
}

void EndLadder::Kill(std::string_view why) {
  Say(why);
  ranks_.Signal(SIGKILL);
  Enter(Phase::kKill, kKilledNs);
}

// The ranks may be saving what they have.
void EndLadder::EnterStop(Phase phase) {
  Enter(phase, int64_t{options_.stop_grace_s} * 1'000'000'000);
  say_waiting_ns_ = MonotonicNs() + kSayWaitingNs;
}

void EndLadder::Enter(Phase phase, int64_t stay_ns) {
  phase_ = phase;
  say_waiting_ns_ = INT64_MAX;
  phase_end_ns_ = stay_ns == INT64_MAX ? INT64_MAX : MonotonicNs() + stay_ns;
}

int64_t EndLadder::wake_ns() const {
  return std::min(phase_end_ns_, say_waiting_ns_);
}

void EndLadder::Climb() {
  if (MonotonicNs() < phase_end_ns_) {
    if (MonotonicNs() < say_waiting_ns_ || ranks_.AllExited()) return;
    say_waiting_ns_ = INT64_MAX;
    return Say(StrCat("waiting for ", ranks_.StillRunning(), " to end, ", options_.stop_grace_s,
                      " s in all"));
  }
  if (phase_ == Phase::kStopping && !ranks_.AllExited()) {
    Say(StrCat("the ", options_.stop_grace_s, " s of --stop-grace are over; ending ",
               ranks_.StillRunning()));
  }
  if (phase_ == Phase::kGrace || phase_ == Phase::kStopping) {
    ranks_.Signal(SIGTERM);
    ranks_.Signal(SIGCONT);  // stopped ones notice only then
    Enter(Phase::kTerm, kTermNs);
  } else if (phase_ == Phase::kKill) {
    SayWhoIsLeft();
    Enter(Phase::kKill, INT64_MAX);
  } else if (phase_ == Phase::kTerm) {
    Kill("killing the ranks that SIGTERM did not end");
  } else if (phase_ == Phase::kAsked) {
    Kill(StrCat("killing the ranks that ", SignalName(signal_), " did not end within ",
                options_.stop_grace_s, " s"));
  }
}

// The kernel ends a killed process when it lets go of it: not while a group of version 1 is frozen, nor before a system call
// has come back from a device. Until then its pid and its memory are there, so it is waited for.
void EndLadder::SayWhoIsLeft() {
  for (const Rank& rank : ranks_.processes()) {
    if (rank.exit.has_value()) continue;
    Say(StrCat(rank.WithPid(), " was killed and has not ended: it is ",
               HoldText(ReadProcessState("", rank.pid)), "; waiting for it"));
  }
}

void EndLadder::Say(std::string_view line) {
  err_.Append("weftrun: ", StrCat(line, "\n"));
}

}  // namespace weft
