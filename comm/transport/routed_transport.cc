#include "comm/transport/routed_transport.h"

#include <iterator>
#include <utility>

namespace weft {
namespace {

constexpr uint32_t kTurnsForAll = 8;

}  // namespace

RoutedTransport::RoutedTransport(std::vector<std::unique_ptr<Transport>> carriers,
                                 std::vector<int> routes)
    : carriers_(std::move(carriers)), routes_(std::move(routes)) {}

void RoutedTransport::Post(Transfer* transfer) {
  CarrierOf(transfer->peer).Post(transfer);
}

std::optional<OfferedMessage> RoutedTransport::Offered(int peer, const StreamId& stream) {
  return CarrierOf(peer).Offered(peer, stream);
}

bool RoutedTransport::Advance() {
  const bool all = turn_.fetch_add(1, std::memory_order_relaxed) % kTurnsForAll == 0;
  bool moved = false;
  for (const std::unique_ptr<Transport>& carrier : carriers_) {
    moved |= carrier->Advance();
    if (moved && !all) return true;
  }
  return moved;
}

void RoutedTransport::CloseGroup(uint64_t group_id) {
  for (const std::unique_ptr<Transport>& carrier : carriers_)
    carrier->CloseGroup(group_id);
}

std::vector<LinkEvent> RoutedTransport::TakeEvents() {
  std::vector<LinkEvent> events;
  for (const std::unique_ptr<Transport>& carrier : carriers_) {
    std::vector<LinkEvent> more = carrier->TakeEvents();
    events.insert(events.end(), std::make_move_iterator(more.begin()),
                  std::make_move_iterator(more.end()));
  }
  return events;
}

void RoutedTransport::AppendTraffic(std::vector<LinkTraffic>* traffic) {
  for (const std::unique_ptr<Transport>& carrier : carriers_)
    carrier->AppendTraffic(traffic);
}

void RoutedTransport::AppendPollItems(std::vector<PollItem>* items) {
  for (const std::unique_ptr<Transport>& carrier : carriers_)
    carrier->AppendPollItems(items);
}

void RoutedTransport::Leave() {
  for (const std::unique_ptr<Transport>& carrier : carriers_)
    carrier->Leave();
}

}  // namespace weft
