#include "cli/weftrun/exit_report.h"

#include <csignal>
#include <cstring>

#include <sys/wait.h>

#include "base/proc.h"
#include "base/text.h"

namespace weft {

bool ExitReport::MayFollow() const {
  return signal == 0 || signal == SIGABRT;
}

std::string ExitReport::ToString() const {
  if (signal == 0) return StrCat("exited with code ", exit_code);
  return StrCat("killed by signal ", signal, " (", SignalName(signal), ")",
                core_dumped ? ", core dumped" : "",
                oom_kills == 0 ? "" : StrCat(" (", OomKillText(oom_kills), ")"));
}

std::optional<ExitReport> PeekExit(pid_t pid) {
  siginfo_t info = {};
  if (waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
      info.si_pid != pid) {
    return std::nullopt;
  }
  if (info.si_code == CLD_EXITED) return ExitReport{.exit_code = info.si_status};
  return ExitReport{.signal = info.si_status, .core_dumped = info.si_code == CLD_DUMPED};
}

std::string SignalName(int signal) {
  const char* name = sigabbrev_np(signal);
  return name == nullptr ? StrCat("signal ", signal) : StrCat("SIG", name);
}

std::string HoldText(ProcessState state) {
  const char letter = ProcessStateLetter(state);
  if (letter == '?') return ProcessStateText(state);
  return StrCat(ProcessStateText(state), " (state ", std::string_view(&letter, 1), ")");
}

}  // namespace weft
