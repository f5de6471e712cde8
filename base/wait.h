// The one loop in weft that waits on an atomic.
//
//   Deadline deadline{timeout_ns};
//   WaitResult r = WaitUntil(events, policy, deadline, [&] { return word.load() == want; }, stop);
//
// It spins for policy.spins probes, then yields policy.yields times, then sleeps on a futex. Whoever
// makes the predicate true stores it with memory_order_seq_cst and then calls NotifyAll(events): one load
// of `sleepers` when nobody sleeps, one FUTEX_WAKE otherwise.
// No wake-up is lost: the sleeper adds itself to `sleepers` (seq_cst) before it probes the predicate
// a last time; the publisher stores (seq_cst) before it reads `sleepers`. One of the two sees the
// other. Sleeps are at most kNapNs long anyway, because `stop` must run: it looks for aborts and dead
// peers.
//
// Thread-safety: any number of waiters and notifiers, in several processes if the EventCount is in shared memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <ctime>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/later.h"

namespace weft {

// What waiters sleep on: counts how often whoever publishes something has found sleepers and woken them. One line, which may
// be in shared memory.
struct alignas(64) EventCount {
  std::atomic<uint32_t> word{0};
  std::atomic<uint32_t> sleepers{0};
};

static_assert(std::atomic<uint32_t>::is_always_lock_free);

struct WaitPolicy {
  uint32_t spins = 2000;  // probes with a pause in between
  uint32_t yields = 50;   // then probes with a sched_yield
};

enum class WaitResult { kReady, kDeadline, kStopped };

// When a wait gives up: `timeout_ns` after it was first found to take long, so that short waits do not
// read the clock. Copies share nothing; give the same object to all waits of one operation.
struct Deadline {
  int64_t timeout_ns;
  int64_t at_ns = 0;    // on MonotonicNs's clock; 0: not started
  int64_t slow_ns = 0;  // what the waits have taken after they stopped spinning

  bool Passed(int64_t now_ns) {
    if (at_ns == 0) at_ns = Later(now_ns, timeout_ns);
    return now_ns >= at_ns;
  }
};

// Nanoseconds of CLOCK_MONOTONIC.
inline int64_t MonotonicNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

namespace wait_internal {
// Adds the time of a scope to `total_ns`.
class Stopwatch {
 public:
  explicit Stopwatch(int64_t& total_ns) : total_ns_(total_ns), started_ns_(MonotonicNs()) {}

  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

  ~Stopwatch() { total_ns_ += MonotonicNs() - started_ns_; }

 private:
  int64_t& total_ns_;
  const int64_t started_ns_;
};

constexpr int64_t kNapNs = 20'000'000;

inline void Pause() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

void Yield();
void Sleep(const std::atomic<uint32_t>& word, uint32_t value, int64_t nap_ns);
void WakeAll(const std::atomic<uint32_t>& word);
}  // namespace wait_internal

// Wakes whoever sleeps on `events`; after the publishing store, which must be seq_cst.
inline void NotifyAll(EventCount& events) {
  if (events.sleepers.load(std::memory_order_seq_cst) == 0) return;
  events.word.fetch_add(1, std::memory_order_seq_cst);
  wait_internal::WakeAll(events.word);
}

// Probes a few times, at most `probes`; true as soon as `ready()`. What most waits of ranks that run side by
// side come to: afterwards the caller does what it has put off until it really has to wait.
template <typename Ready>
bool ProbeBriefly(uint32_t probes, Ready&& ready) {
  for (uint32_t probe = 0; probe < probes; ++probe) {
    if (ready()) return true;
    wait_internal::Pause();
  }
  return false;
}

// Waits until `ready()` (kReady), the deadline (kDeadline) or `stop()` (kStopped), which is asked
// about every 1000 spins, every 16 yields and after each nap.
template <typename Ready, typename Stop>
WaitResult WaitUntil(EventCount& events, const WaitPolicy& policy, Deadline& deadline,
                     Ready&& ready, Stop&& stop) {
  for (uint32_t spin = 0; spin < policy.spins; ++spin) {
    if (ready()) return WaitResult::kReady;
    wait_internal::Pause();
    if (spin % 1024 == 1023 && stop()) return WaitResult::kStopped;
  }
  if (ready()) return WaitResult::kReady;
  const wait_internal::Stopwatch slow(deadline.slow_ns);
  for (uint32_t yield = 0; yield < policy.yields; ++yield) {
    if (ready()) return WaitResult::kReady;
    if (yield % 16 == 15 && stop()) return WaitResult::kStopped;
    wait_internal::Yield();
  }
  while (true) {
    if (ready()) return WaitResult::kReady;
    if (stop()) return WaitResult::kStopped;
    const int64_t now_ns = MonotonicNs();
    if (deadline.Passed(now_ns)) return WaitResult::kDeadline;
    const uint32_t value = events.word.load(std::memory_order_seq_cst);
    events.sleepers.fetch_add(1, std::memory_order_seq_cst);
    const bool reached = ready();  // asked once: it may take what it has waited for
    if (!reached) {
      const int64_t left_ns = deadline.at_ns - now_ns;
      wait_internal::Sleep(events.word, value,
                           left_ns < wait_internal::kNapNs ? left_ns : wait_internal::kNapNs);
    }
    events.sleepers.fetch_sub(1, std::memory_order_seq_cst);
    if (reached) return WaitResult::kReady;
  }
}

}  // namespace weft
