// What an operation that cannot go on waits for: a word that a peer publishes.
#pragma once

#include <atomic>
#include <cstdint>

namespace weft {

// `word` at `peer` to reach `want`, modulo 2^32.
struct WaitTarget {
  int peer = -1;
  const std::atomic<uint32_t>* word = nullptr;
  uint32_t want = 0;
  bool of_messages =
      false;            // word is this rank's own count of events, with an EventCount of its own
  bool others = false;  // messages are waited for too, which have another EventCount
  bool of_all = false;  // word is the arrival counter: any rank may change it, `peer` perhaps

  bool Reached() const {
    return static_cast<int32_t>(word->load(std::memory_order_acquire) - want) >= 0;
  }
};

}  // namespace weft
