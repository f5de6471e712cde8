#include "cli/weftrun/signals.h"

#include <cerrno>

#include <sys/signalfd.h>
#include <unistd.h>

#include "base/new_fd.h"
#include "base/status.h"

namespace weft {

absl::StatusOr<Signals> Signals::Block() {
  Signals signals;
  sigset_t wanted;
  sigemptyset(&wanted);
  sigaddset(&wanted, SIGCHLD);
  for (int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT}) {
    struct sigaction action;
    if (sigaction(number, nullptr, &action) == 0 && action.sa_handler != SIG_IGN) {
      sigaddset(&wanted, number);
    }
  }
  // An ignored SIGCHLD would reap the ranks and lose how they ended.
  signal(SIGCHLD, SIG_DFL);
  signal(SIGPIPE, SIG_IGN);
  if (sigprocmask(SIG_BLOCK, &wanted, &signals.original_) != 0) {
    return SystemError(errno, "blocking signals");
  }
  signals.fd_ = MakeSignalFd(wanted);
  if (!signals.fd_.valid()) return SystemError(errno, "making a signal descriptor");
  return signals;
}

int Signals::Next() {
  signalfd_siginfo info;
  while (true) {
    const ssize_t n = read(fd_.get(), &info, sizeof info);
    if (n == sizeof info) return static_cast<int>(info.ssi_signo);
    if (n >= 0 || errno != EINTR) return 0;
  }
}

}  // namespace weft
