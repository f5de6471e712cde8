#include "comm/hierarchy/link_health.h"

#include <algorithm>

namespace weft {
namespace {

// One that was sent again once may just have been late.
constexpr int kSentAgainMin = 2;
constexpr int64_t kHealthSecondNs = 1'000'000'000;

uint64_t RateOf(uint64_t bytes, int64_t ns) {
  return ns > 0 ? static_cast<uint64_t>(static_cast<double>(bytes) * kHealthSecondNs /
                                        static_cast<double>(ns))
                : 0;
}

}  // namespace

void LinkHealth::Look(const std::vector<LinkTraffic>& traffic, int64_t now_ns) {
  std::map<std::pair<int, int>, Connection> before;
  before.swap(connections_);
  for (const LinkTraffic& link : traffic) {
    const std::pair<int, int> key(link.peer, link.connection);
    const auto known = before.find(key);
    Connection connection;
    // One that was made anew counts anew.
    const bool same = known != before.end() &&
                      link.stream.acknowledged_bytes >= known->second.now.acknowledged_bytes &&
                      link.stream.received_bytes >= known->second.now.received_bytes;
    if (same) connection = std::move(known->second);
    const bool quiet = same && link.stream.unacknowledged_bytes > 0 && !link.stream.answered &&
                       link.stream.acknowledged_bytes == connection.now.acknowledged_bytes &&
                       link.stream.received_bytes == connection.now.received_bytes;
    if (!quiet) connection.quiet_since_ns = now_ns;
    connection.addresses = link.addresses;
    connection.now = link.stream;
    connection.samples.push_back({.time_ns = now_ns,
                                  .sent = link.stream.acknowledged_bytes,
                                  .received = link.stream.received_bytes});
    while (connection.samples.size() > 2 && connection.samples[1].time_ns <= now_ns - kRateNs)
      connection.samples.pop_front();
    connections_.emplace(key, std::move(connection));
  }
}

std::vector<LinkHealth::Finding> LinkHealth::Findings(int64_t now_ns) const {
  std::vector<Finding> findings;
  for (const auto& [key, connection] : connections_) {
    const Sample& first = connection.samples.front();
    const Sample& last = connection.samples.back();
    Finding found{.peer = key.first,
                  .connection = key.second,
                  .addresses = connection.addresses,
                  .stream = connection.now,
                  .quiet_ns = now_ns - connection.quiet_since_ns};
    found.stalled = found.quiet_ns >= kStalledNs && connection.now.unacknowledged_bytes > 0 &&
                    connection.now.sent_again >= kSentAgainMin;
    found.sent_rate = RateOf(last.sent - first.sent, last.time_ns - first.time_ns);
    found.received_rate = RateOf(last.received - first.received, last.time_ns - first.time_ns);
    if (found.stalled || found.sent_rate > 0 || found.received_rate > 0)
      findings.push_back(std::move(found));
  }
  std::stable_partition(findings.begin(), findings.end(),
                        [](const Finding& found) { return found.stalled; });
  return findings;
}

}  // namespace weft
