#include "base/wait.h"

#include <climits>

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace weft::wait_internal {
namespace {

long Futex(const std::atomic<uint32_t>& word, int operation, uint32_t value,
           const timespec* timeout) {
  return syscall(SYS_futex, &word, operation, value, timeout, nullptr, 0);
}

}  // namespace

void Yield() {
  sched_yield();
}

// Returns early on a wake, a signal or a changed word; the caller probes again in every case.
void Sleep(const std::atomic<uint32_t>& word, uint32_t value, int64_t nap_ns) {
  timespec timeout;
  timeout.tv_sec = nap_ns / 1'000'000'000;
  timeout.tv_nsec = nap_ns % 1'000'000'000;
  Futex(word, FUTEX_WAIT, value, &timeout);
}

void WakeAll(const std::atomic<uint32_t>& word) {
  Futex(word, FUTEX_WAKE, INT_MAX, nullptr);
}

}  // namespace weft::wait_internal
