#include "trainer/stop_signals.h"

#include <atomic>
#include <csignal>

#include <unistd.h>

namespace weft::trainer {
namespace {

std::atomic<uint64_t> requested{0};
static_assert(std::atomic<uint64_t>::is_always_lock_free, "a handler of signals takes no lock");

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

}  // namespace

void CatchStopSignals() {
  struct sigaction action = {};
  action.sa_handler = Note;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1})
    sigaction(signal, &action, nullptr);
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
