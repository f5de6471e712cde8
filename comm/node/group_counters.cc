#include "comm/node/group_counters.h"

namespace weft {

namespace {

// Looks of a reader at counters that go on, before it takes what it has.
constexpr int kLooks = 100;

}  // namespace

GroupStats GroupCounters::Read() const {
  const auto value = [](const Counter& counter) {
    return counter.load(std::memory_order_acquire);
  };
  GroupStats stats;
  // Exact if nothing has ended between two looks.
  uint64_t started = 0;
  for (int look = 0; look < kLooks; ++look) {
    stats.collectives = value(collectives_);
    started = value(started_);
    if (stats.collectives == value(collectives_)) break;
  }
  stats.pending = started > stats.collectives ? started - stats.collectives : 0;
  stats.messages = value(messages_);
  stats.failures = value(failures_) + value(message_failures_);
  stats.in_bytes = value(in_bytes_) + value(sent_bytes_);
  stats.out_bytes = value(out_bytes_) + value(received_bytes_);
  stats.wait_ns = wait_ns_.load(std::memory_order_relaxed);
  stats.shared_bytes = value(shared_bytes_);
  return stats;
}

}  // namespace weft
