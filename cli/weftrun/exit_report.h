// How the process of a rank ended, and what holds one that has not.
//
//   rank.exit = PeekExit(rank.pid);
//   if (rank.exit && rank.exit->failed()) Say(StrCat("rank 2 ", rank.exit->ToString()));
//   if (IsHeld(ReadProcessState("", other.pid)) ...   // it is the cause, if the failure MayFollow()
//
// Thread-safety: values and pure functions.
#pragma once

#include <csignal>
#include <cstdint>
#include <optional>
#include <string>

#include <sys/types.h>

#include "base/process_state.h"

namespace weft {

struct ExitReport {
  // What was to be written could not be: EX_IOERR of sysexits.h.
  static constexpr int kUnsaved = 74;

  int signal = 0;  // 0: exited by itself
  int exit_code = 0;
  bool core_dumped = false;
  // Of one that was killed by SIGKILL, not by weftrun: by how much its memory cgroup's oom_kill counter rose.
  uint64_t oom_kills = 0;

  bool failed() const { return signal != 0 || exit_code != 0; }

  // It may have given up because of another rank: it exited, or called abort() as programs do that do not catch an
  // exception. Other signals come from its own mistakes, or from outside.
  bool MayFollow() const;

  // It was asked to end and did, in an order of its own: a program that such a signal kills was not prepared for it.
  bool asked() const {
    return signal == 0 &&
           (exit_code == 128 + SIGTERM || exit_code == 128 + SIGINT || exit_code == 128 + SIGHUP);
  }

  // Its work is lost, or not told: to begin again would hide that, and meet the same full disk.
  bool unsaved() const { return signal == 0 && exit_code == kUnsaved; }

  // The job is over, and no rank starts again.
  bool concludes() const { return asked() || unsaved(); }

  // The same code, or the same signal.
  bool SameEnd(const ExitReport& other) const {
    return signal == other.signal && exit_code == other.exit_code;
  }

  // As a shell reports it.
  int shell_code() const { return signal != 0 ? 128 + signal : exit_code; }

  // "killed by signal 9 (SIGKILL)", "killed by signal 11 (SIGSEGV), core dumped", "exited with code 1".
  std::string ToString() const;
};

// How the process ended, std::nullopt if it has not. Leaves it unreaped.
std::optional<ExitReport> PeekExit(pid_t pid);

std::string SignalName(int signal);  // "SIGKILL"

// "stopped (state T)", "frozen by its cgroup".
std::string HoldText(ProcessState state);

}  // namespace weft
