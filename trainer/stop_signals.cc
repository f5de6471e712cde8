// No handler may run where oneDNN computes: some of its kernels (2.6, AVX2 and later) use the stack pointer as one more register that points to their
// heap memory, and the system would write the frame of a signal there. So all threads block these signals, and one waits for them.
#include "trainer/stop_signals.h"

#include <atomic>
#include <csignal>
#include <system_error>
#include <thread>

#include <pthread.h>
#include <unistd.h>

namespace weft::trainer {
namespace {

std::atomic<uint64_t> requested{0};

uint64_t RequestOf(int signal) {
  switch (signal) {
    case SIGTERM:
      return kRequestTerminate;
    case SIGINT:
      return kRequestInterrupt;
    default:
      return kRequestSave;
  }
}

void Note(int signal) {
  const uint64_t request = RequestOf(signal);
  const uint64_t before = requested.fetch_or(request, std::memory_order_relaxed);
  if (request != kRequestSave && StopCode(before) != 0) _exit(StopCode(request));
}

[[noreturn]] void NoteAll(const sigset_t& signals) {
  for (;;) {
    int signal = 0;
    if (sigwait(&signals, &signal) == 0) Note(signal);
  }
}

}  // namespace

void CatchStopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1})
    sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  try {
    std::thread([signals] { NoteAll(signals); }).detach();
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

int StopCode(uint64_t requests) {
  if ((requests & kRequestTerminate) != 0) return 128 + SIGTERM;
  return (requests & kRequestInterrupt) != 0 ? 128 + SIGINT : 0;
}

}  // namespace weft::trainer
