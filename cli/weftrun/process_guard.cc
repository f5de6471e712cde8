#include "cli/weftrun/process_guard.h"

#include <cerrno>
#include <csignal>
#include <set>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/new_fd.h"
#include "base/status.h"

namespace weft {
namespace {

// `pipe` is the only descriptor left open: whoever waits for the end of weftrun's output must not
// wait for this process.
[[noreturn]] void Guard(int pipe) {
  setpgid(0, 0);  // a ^C at the terminal is not meant for it
  prctl(PR_SET_NAME, "weftrun-guard");
  dup2(pipe, 0);
  close_range(1, ~0u, 0);
  std::set<pid_t> groups;
  pid_t told = 0;
  while (true) {
    const ssize_t n = read(0, &told, sizeof told);
    if (n < 0 && errno == EINTR) continue;
    if (n != sizeof told) break;
    if (told > 1) groups.insert(told);
    if (told < -1) groups.erase(-told);
  }
  for (pid_t group : groups)
    kill(-group, SIGKILL);
  _exit(0);
}

}  // namespace

absl::StatusOr<ProcessGuard> ProcessGuard::Start() {
  PipeEnds ends = MakePipe();
  if (!ends.valid()) return SystemError(errno, "making the pipe of the guard");
  const pid_t pid = fork();
  if (pid < 0) return SystemError(errno, "starting the guard process");
  if (pid == 0) {
    // weftrun's signals are blocked here as well, so only SIGKILL and SIGSTOP reach the guard.
    ends.write.Reset();
    Guard(ends.read.get());
  }
  return ProcessGuard(pid, std::move(ends.write));
}

ProcessGuard::~ProcessGuard() {
  if (!pipe_.valid()) return;  // moved from
  // Nothing is left to guard; SIGKILL because it reaches a stopped process too.
  kill(pid_, SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void ProcessGuard::Tell(pid_t group) {
  // A pipe takes so few bytes whole or not at all. A guard that was killed guards nothing: EPIPE.
  while (write(pipe_.get(), &group, sizeof group) < 0 && errno == EINTR) {
  }
}

}  // namespace weft
