#include "comm/select/partner.h"

#include <utility>

#include "base/hidden_thread.h"

namespace weft {

Partner::Partner(int64_t stop_at_ns) : stop_at_ns_(stop_at_ns) {
  // Without a thread running() says so, and nothing between two cores is measured.
  absl::StatusOr<std::thread> started = StartHiddenThread("weft-measure", [this] { Loop(); });
  if (started.ok()) thread_ = *std::move(started);
}

Partner::~Partner() {
  End();
}

void Partner::End() {
  if (!running()) return;
  ended_.store(true, std::memory_order_seq_cst);
  NotifyAll(begun_waiters_);
  thread_.join();
}

void Partner::Begin(std::function<void()> task) {
  if (!running()) return;
  task_ = std::move(task);
  begun_.store(begun_.load(std::memory_order_relaxed) + 1, std::memory_order_seq_cst);
  NotifyAll(begun_waiters_);
}

bool Partner::Finish() {
  if (!running()) return false;
  const uint32_t begun = begun_.load(std::memory_order_relaxed);
  const bool done = WaitFor(done_waiters_, kMeasureWait,
                            [&] { return done_.load(std::memory_order_acquire) == begun; });
  if (!done) End();
  return done;
}

bool Partner::Do(std::function<void()> task) {
  Begin(std::move(task));
  return Finish();
}

void Partner::Loop() {
  for (uint32_t task = 1;; ++task) {
    const bool begun = WaitFor(begun_waiters_, kMeasureWait, [&] {
      return begun_.load(std::memory_order_acquire) == task ||
             ended_.load(std::memory_order_acquire);
    });
    if (!begun || ended_.load(std::memory_order_acquire)) return;
    task_();
    done_.store(task, std::memory_order_seq_cst);
    NotifyAll(done_waiters_);
  }
}

}  // namespace weft
