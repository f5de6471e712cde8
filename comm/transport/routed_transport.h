// Several transports as one: each peer is reached by one of them.
//
//   auto transport = std::make_unique<RoutedTransport>(std::move(carriers), std::vector<int>{0, 0, 1, 1});   // by peer: which one
//
// All number peers alike, as the group does: a transfer belongs to its owner, and is posted as it is. Carriers that need no call
// of the system stand first: while they have something to do, those behind get every eighth turn.
//
// Thread-safety: as Transport. Owns the carriers.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "comm/transport/transport.h"

namespace weft {

class RoutedTransport : public Transport {
 public:
  // An entry of `routes` that is not asked for, such as this rank's own, may be any.
  RoutedTransport(std::vector<std::unique_ptr<Transport>> carriers, std::vector<int> routes);

  void Post(Transfer* transfer) override;
  bool Advance() override;
  void CloseGroup(uint64_t group_id) override;
  std::optional<OfferedMessage> Offered(int peer, const StreamId& stream) override;
  std::vector<LinkEvent> TakeEvents() override;
  void AppendTraffic(std::vector<LinkTraffic>* traffic) override;
  void AppendPollItems(std::vector<PollItem>* items) override;
  void Leave() override;

 private:
  Transport& CarrierOf(int peer) const {
    return *carriers_[static_cast<size_t>(routes_[static_cast<size_t>(peer)])];
  }

  const std::vector<std::unique_ptr<Transport>> carriers_;
  const std::vector<int> routes_;  // by peer
  std::atomic<uint32_t> turn_{0};
};

}  // namespace weft
