// A second thread that does one task at a time, for measurements between two cores.
//
//   Partner partner(stop_at_ns);
//   partner.Begin([&] { ReadLines(shared); });
//   if (!partner.Finish()) return;       // the time is over
//
// Starts a thread and joins it when destroyed, or when time is over: no task runs after its Finish().
// Waits end at `stop_at_ns`, also those of tasks, which wait with WaitFor(); so both return soon after it.
// Thread-safety: Begin and Finish from the creating thread, WaitFor() from both.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>

#include "base/wait.h"

namespace weft {

// How both threads wait while they measure: another core answers within the spins, or is asleep.
constexpr WaitPolicy kMeasureWait = {.spins = 20'000, .yields = 200};

class Partner {
 public:
  // Until `stop_at_ns` on MonotonicNs's clock.
  explicit Partner(int64_t stop_at_ns);
  Partner(const Partner&) = delete;
  Partner& operator=(const Partner&) = delete;
  ~Partner();

  // False if the system gave no thread, and when time is over.
  bool running() const { return thread_.joinable(); }

  // Has the thread do `task`, if it is running. Not before the last one has finished.
  void Begin(std::function<void()> task);

  // True when the task has been done; false if it was not begun, or not done in time.
  bool Finish();

  // Begin and Finish.
  bool Do(std::function<void()> task);

  // Waits until `ready()`, whose change is notified to `events`; false when the time is over.
  template <typename Ready>
  bool WaitFor(EventCount& events, const WaitPolicy& policy, Ready&& ready) const {
    Deadline deadline{.timeout_ns = 0, .at_ns = stop_at_ns_};
    return WaitUntil(events, policy, deadline, ready, [] { return false; }) == WaitResult::kReady;
  }

 private:
  void Loop();
  void End();

  const int64_t stop_at_ns_;
  EventCount begun_waiters_;
  EventCount done_waiters_;
  alignas(64) std::atomic<uint32_t> begun_{0};
  alignas(64) std::atomic<uint32_t> done_{0};
  std::atomic<bool> ended_{false};
  std::function<void()> task_;  // the creator's while done_ == begun_, the thread's otherwise
  std::thread thread_;
};

}  // namespace weft
