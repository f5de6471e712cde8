// Which other islands are stalled, as the speaker of an island sees it, for all of its processes: a bit each in pages that they share.
//
//   IslandStalls stalls(block, map.island_count());
//   stalls.Show(agent.reach()->Stalled());           // the speaker
//   if (stalls.Has(3)) ...                           // any process
//
// Thread-safety: any thread of any process; of two that show at once, either. The block is borrowed; zeroed pages show nothing.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/cache_line.h"
#include "comm/agent/island_number_set.h"

namespace weft {

class IslandStalls {
 public:
  static size_t BytesFor(int island_count) {
    const size_t bytes = Words(island_count) * sizeof(uint64_t);
    return (bytes + kCacheLineBytes - 1) / kCacheLineBytes * kCacheLineBytes;
  }

  IslandStalls(std::byte* block, int island_count)
      : words_(reinterpret_cast<std::atomic<uint64_t>*>(block)), island_count_(island_count) {}

  void Show(const IslandNumberSet& stalled) {
    for (size_t word = 0; word < Words(island_count_); ++word) {
      uint64_t bits = 0;
      for (int bit = 0; bit < kBits; ++bit)
        bits |= uint64_t{stalled.Has(static_cast<int>(word) * kBits + bit)} << bit;
      if (words_[word].load(std::memory_order_relaxed) != bits)
        words_[word].store(bits, std::memory_order_relaxed);
    }
  }

  bool Has(int island) const {
    if (island < 0 || island >= island_count_) return false;
    const uint64_t bits = words_[island / kBits].load(std::memory_order_relaxed);
    return (bits >> (island % kBits) & 1) != 0;
  }

 private:
  static constexpr int kBits = 64;

  static size_t Words(int island_count) {
    return (static_cast<size_t>(island_count) + kBits - 1) / kBits;
  }

  std::atomic<uint64_t>* const words_;
  const int island_count_;
};

}  // namespace weft
