// No handler may run where oneDNN computes: some of its kernels (2.6, AVX2 and later) use the stack pointer as one more register that points to their
// heap memory, and the system would write the frame of a signal there. So all threads block these signals, and one waits for them.
#include "trainer/stop_signals.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <thread>

#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include "trainer/failure.h"

namespace weft::trainer {
namespace {

using Clock = std::chrono::steady_clock;

std::atomic<uint64_t> requested{0};
std::atomic<Clock::rep> first_stop{0};  // when; 0: not yet

// Since the first request to end; none if nobody has asked.
std::chrono::nanoseconds SinceFirstStop() {
  const Clock::rep first = first_stop.load(std::memory_order_relaxed);
  if (first == 0) return {};
  return Clock::now().time_since_epoch() - Clock::duration(first);
}

uint64_t RequestOf(int signal) {
  switch (signal) {
    case SIGTERM:
      return kRequestTerminate;
    case SIGINT:
      return kRequestInterrupt;
    case SIGHUP:
      return kRequestHangUp;
    default:
      return kRequestSave;
  }
}

// The process that started this one, if that is weftrun.
pid_t LauncherPid() {
  return std::getenv("WEFT_STORE") != nullptr ? getppid() : -1;
}

// What is being saved is not waited for, so the exit code is not that of a stop that has saved; nor is a full pipe.
[[noreturn]] void EndAtOnce(int signal) {
  pollfd error = {STDERR_FILENO, POLLOUT, 0};
  if (poll(&error, 1, 0) == 1 && (error.revents & POLLOUT) != 0) {
    dprintf(STDERR_FILENO, "weft_train: SIG%s again: ending at once, a save under way is lost\n",
            sigabbrev_np(signal));
  }
  _exit(kExitNotWritten);
}

[[noreturn]] void NoteAll(const sigset_t& signals, pid_t launcher) {
  for (;;) {
    siginfo_t info = {};
    if (sigwaitinfo(&signals, &info) < 0) continue;
    const uint64_t request = RequestOf(info.si_signo);
    const uint64_t before = requested.fetch_or(request, std::memory_order_relaxed);
    if (request == kRequestSave) continue;
    if (StopCode(before) == 0) {
      first_stop.store(Clock::now().time_since_epoch().count(), std::memory_order_relaxed);
    } else if (SinceFirstStop().count() >= kOneStopNs && info.si_pid != launcher) {
      EndAtOnce(info.si_signo);
    }
  }
}

bool IsIgnored(int signal) {
  struct sigaction action = {};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

void CatchStopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1}) {
    if (!IsIgnored(signal)) sigaddset(&signals, signal);
  }
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  try {
    std::thread([signals, launcher = LauncherPid()] { NoteAll(signals, launcher); }).detach();
  } catch (const std::system_error&) {
    // Without a thread for them they do what they do by themselves.
    pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  }
}

uint64_t TakeRequests() {
  return requested.fetch_and(~kRequestSave, std::memory_order_relaxed);
}

uint64_t PendingRequests() {
  return requested.load(std::memory_order_relaxed);
}

int AskedLongAgo(void*) {
  return SinceFirstStop().count() >= kWaitAfterStopNs ? 1 : 0;
}

int StopCode(uint64_t requests) {
  if ((requests & kRequestTerminate) != 0) return 128 + SIGTERM;
  if ((requests & kRequestInterrupt) != 0) return 128 + SIGINT;
  return (requests & kRequestHangUp) != 0 ? 128 + SIGHUP : 0;
}

}  // namespace weft::trainer
