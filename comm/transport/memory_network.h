// A network inside one process, for ranks that are threads of it or are stepped one after the other: the reference for transports, and
// what schedules are tried on.
//
//   MemoryNetwork network(4, seed);
//   std::unique_ptr<Transport> transport = network.Join(2);
//
// With a seed other than 0 messages are delivered in an order that the seed says, one in each Advance() at most, and offers
// are seen sooner or later.
//
// Thread-safety: any thread. The network outlives its transports.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "base/mutex.h"
#include "comm/transport/transfer_list.h"
#include "comm/transport/transport.h"

namespace weft {

class MemoryNetwork {
 public:
  explicit MemoryNetwork(int size, uint64_t seed = 0);

  std::unique_ptr<Transport> Join(int rank);

  // Bytes that `rank` has sent to others.
  uint64_t sent_bytes(int rank);

 private:
  class Port;

  struct Posts {
    TransferList sends;
    TransferList receives;
    std::vector<uint64_t> closed;
    std::vector<LinkEvent> events;
    uint64_t sent_bytes = 0;
    bool left = false;
  };

  bool DeliverOne(int rank) WEFT_REQUIRES(mutex_);
  void Deliver(int sender, Transfer* send, Transfer* receive) WEFT_REQUIRES(mutex_);

  const uint64_t seed_;
  Mutex mutex_;
  std::vector<Posts> ranks_ WEFT_GUARDED_BY(mutex_);
  std::mt19937_64 random_ WEFT_GUARDED_BY(mutex_);
};

}  // namespace weft
