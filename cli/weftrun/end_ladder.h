// How the ranks are brought to their end, step by step, if they do not get there by themselves.
//
//   EndLadder ladder(options, &ranks, sinks.err);
//   ladder.EndAfter(EndLadder::kGraceNs);      // a rank has failed
//   while (!ranks.AllExited()) { poll until ladder.wake_ns(); ladder.Climb(); }
//
// | begun by   | why                          | the ranks have      | then                             |
// |------------|------------------------------|---------------------|----------------------------------|
// | EndAfter   | one has failed               | the time given      | SIGTERM, kTermNs later SIGKILL   |
// | AwaitStop  | one was asked to end         | options.stop_grace_s | the same                         |
// | Ask        | weftrun was asked to end     | options.stop_grace_s | SIGKILL: the signal has been sent |
// | Kill       | it was asked again           | nothing             | kKilledNs later it is said who is left |
//
// Signals go to the process groups of the ranks. Who begins again from the top begins another wait, but nobody does after Kill.
//
// Thread-safety: one thread. Borrows all it is given.
#pragma once

#include <cstdint>
#include <string_view>

#include "cli/weftrun/output_sink.h"
#include "cli/weftrun/ranks.h"
#include "cli/weftrun/run_options.h"

namespace weft {

class EndLadder {
 public:
  static constexpr int64_t kGraceNs = 2'000'000'000;
  static constexpr int64_t kTermNs = 5'000'000'000;
  static constexpr int64_t kKilledNs = 5'000'000'000;
  static constexpr int64_t kSayWaitingNs = 5'000'000'000;  // then it is said for whom this waits

  EndLadder(const RunOptions& options, Ranks* ranks, OutputSink* err)
      : options_(options), ranks_(*ranks), err_(*err) {}

  // Nothing ends the ranks.
  bool idle() const { return phase_ == Phase::kIdle; }

  // A rank was asked to end, and the others do as they like.
  bool stopping() const { return phase_ == Phase::kStopping; }

  bool killed() const { return phase_ == Phase::kKill; }

  void EndAfter(int64_t grace_ns);
  void AwaitStop();
  void Ask(int signal);
  void Kill(std::string_view why);

  // When Climb() has something to do; INT64_MAX: never.
  int64_t wake_ns() const;
  void Climb();

 private:
  enum class Phase { kIdle, kAsked, kStopping, kGrace, kTerm, kKill };

  void Enter(Phase phase, int64_t stay_ns);
  void EnterStop(Phase phase);
  void SayWhoIsLeft();
  void Say(std::string_view line);

  const RunOptions& options_;
  Ranks& ranks_;
  OutputSink& err_;
  Phase phase_ = Phase::kIdle;
  int64_t phase_end_ns_ = INT64_MAX;
  int64_t say_waiting_ns_ = INT64_MAX;  // in kAsked and kStopping
  int signal_ = 0;                      // in kAsked
};

}  // namespace weft
