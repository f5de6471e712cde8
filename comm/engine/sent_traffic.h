// What one rank of a group over several islands has sent: to ranks of its island, and to those of others. Messages as they are posted, with
// their payload: neither what transports put around it nor what they write again counts.
//
//   SentTraffic traffic(islands.island_of, rank);
//   traffic.Count(peer, bytes);
//   const uint64_t far = traffic.far_bytes();
//
// Thread-safety: Count() from one thread at a time; the numbers from any thread, each of them of some moment.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft {

class SentTraffic {
 public:
  // `island_of`: by rank.
  SentTraffic(const std::vector<int>& island_of, int rank) {
    for (const int island : island_of)
      is_near_.push_back(island == island_of[static_cast<size_t>(rank)]);
  }

  void Count(int peer, uint64_t bytes) {
    Counts& counts = is_near_[static_cast<size_t>(peer)] ? near_ : far_;
    Add(counts.messages, 1);
    Add(counts.bytes, bytes);
  }

  uint64_t near_messages() const { return near_.messages.load(std::memory_order_relaxed); }

  uint64_t near_bytes() const { return near_.bytes.load(std::memory_order_relaxed); }

  uint64_t far_messages() const { return far_.messages.load(std::memory_order_relaxed); }

  uint64_t far_bytes() const { return far_.bytes.load(std::memory_order_relaxed); }

 private:
  struct Counts {
    std::atomic<uint64_t> messages{0};
    std::atomic<uint64_t> bytes{0};
  };

  // One writer at a time: no locked instruction.
  static void Add(std::atomic<uint64_t>& number, uint64_t amount) {
    number.store(number.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
  }

  std::vector<bool> is_near_;  // by rank; constant
  Counts near_;
  Counts far_;
};

}  // namespace weft
