// With which unique ids this process has come to a rendezvous: an id makes one group.
//
//   if (UsedIds::OfProcess().Has(use)) ...            // use: a hash of the id and the rank
//   UsedIds::OfProcess().Add(use);
//
// The latest kKept are known. A forked child knows those of its parent.
// Thread-safety: any thread; without a lock, which a fork might leave held.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace weft {

class UsedIds {
 public:
  static constexpr size_t kKept = 1024;

  static UsedIds& OfProcess() {
    static UsedIds* const ids = new UsedIds;
    return *ids;
  }

  bool Has(uint64_t use) const {
    for (const std::atomic<uint64_t>& known : uses_) {
      if (known.load(std::memory_order_acquire) == use) return true;
    }
    return false;
  }

  // `use` is not 0.
  void Add(uint64_t use) {
    const uint32_t place = next_.fetch_add(1, std::memory_order_relaxed);
    uses_[place % kKept].store(use, std::memory_order_release);
  }

 private:
  std::array<std::atomic<uint64_t>, kKept> uses_{};
  std::atomic<uint32_t> next_{0};
};

}  // namespace weft
