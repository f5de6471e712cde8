// Which of a rank's connections carry nothing of what they are given, and how much the others carry, by what the system counts for each.
//
//   LinkHealth health;
//   health.Look(traffic, now_ns);                       // each kLookNs or so
//   for (const LinkHealth::Finding& found : health.Findings(now_ns)) ...
//
// A connection is stalled if bytes that were sent are not acknowledged for kStalledNs, though the system has sent them again and again, and nothing
// came in answer. A machine that was cut off looks like that, and one behind a hop that drops large packets (an MTU black hole), while its
// agents' small ones pass. A process that does not read does not: its machine answers that there is no room.
//
// Thread-safety: owned by one thread. Two numbers for each connection and look of the last kRateNs.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "comm/transport/transport.h"

namespace weft {

class LinkHealth {
 public:
  static constexpr int64_t kLookNs = 500'000'000;
  static constexpr int64_t kStalledNs = 2'000'000'000;
  static constexpr int64_t kRateNs = 2'000'000'000;  // over which rates are taken

  struct Finding {
    int peer = -1;
    int connection = 0;
    bool stalled = false;
    StreamAddresses addresses;
    StreamTraffic stream;
    int64_t quiet_ns = 0;  // stalled: since something was acknowledged
    // Else: bytes a second, of which there are some.
    uint64_t sent_rate = 0;
    uint64_t received_rate = 0;
  };

  // Connections that are not in it are gone.
  void Look(const std::vector<LinkTraffic>& traffic, int64_t now_ns);

  // Stalled ones first, each by peer; those that carry nothing and have nothing to carry are none.
  std::vector<Finding> Findings(int64_t now_ns) const;

 private:
  struct Sample {
    int64_t time_ns;
    uint64_t sent;
    uint64_t received;
  };

  struct Connection {
    StreamAddresses addresses;
    StreamTraffic now;
    int64_t quiet_since_ns = 0;  // since then the same is unacknowledged, and nothing has come
    std::deque<Sample> samples;  // the last kRateNs
  };

  std::map<std::pair<int, int>, Connection> connections_;  // by peer and number
};

}  // namespace weft
