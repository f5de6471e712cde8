// Kills the calling process soon, wherever it is then: a rank that dies in the middle of something.
//
//   KillWithin(&exchange->killed_ns, 1500);     // in a forked rank; killed_ns in memory that others see
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include <signal.h>
#include <sys/time.h>

#include "base/wait.h"

namespace weft::test {

inline std::atomic<int64_t>* kill_note = nullptr;

// Notes the time, on MonotonicNs's clock, and sends SIGKILL.
inline void KillWithin(std::atomic<int64_t>* killed_ns, int64_t microseconds) {
  kill_note = killed_ns;
  struct sigaction action = {};
  action.sa_handler = [](int) {
    kill_note->store(MonotonicNs());
    raise(SIGKILL);
  };
  sigaction(SIGALRM, &action, nullptr);
  itimerval timer = {};
  timer.it_value.tv_sec = microseconds / 1'000'000;
  timer.it_value.tv_usec = std::max<int64_t>(1, microseconds % 1'000'000);
  setitimer(ITIMER_REAL, &timer, nullptr);
}

}  // namespace weft::test
