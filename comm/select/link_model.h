// What a message costs between two ranks, by the model LogGP (Alexandrov et al., "LogGP: Incorporating Long Messages into the LogP
// Model", 1995), for each class of links: within an island, and between islands.
//
//   const LinkModel model = LinkModel::Default();
//   const LinkCost& cost = model.CostOf(island_of[a] == island_of[b]);
//   cost.MessageNs(1 << 20)                     // one message, nothing else under way
//
// The default ones are constants, which are right for no machine and do to compare schedules: between islands those of a network of 25 Gbit/s
// over the kernel's TCP, within one those of two copies through memory. Those between islands may be measured (comm/hierarchy/link_probe.h).
//
// Thread-safety: values.
#pragma once

#include <cmath>
#include <cstdint>
#include <string_view>

namespace weft {

// Where the numbers come from.
enum class LinkSource : uint8_t {
  kDefault,
  kMeasured,
  kGiven,  // by a person, of a network that is elsewhere
};

// "measured".
constexpr std::string_view LinkSourceName(LinkSource source) {
  if (source == LinkSource::kDefault) return "default";
  return source == LinkSource::kMeasured ? "measured" : "given";
}

struct LinkCost {
  int64_t latency_ns = 0;   // L: from one rank to the other
  int64_t overhead_ns = 0;  // o: of a rank's time, for each message that it sends or gets
  double ns_per_byte = 0;   // G: of what carries the bytes, at either end

  int64_t BytesNs(uint64_t bytes) const {
    return std::llround(static_cast<double>(bytes) * ns_per_byte);
  }

  int64_t MessageNs(uint64_t bytes) const { return 2 * overhead_ns + latency_ns + BytesNs(bytes); }

  friend bool operator==(const LinkCost&, const LinkCost&) = default;
};

struct LinkModel {
  LinkCost near;  // within an island: each rank has a port of its own
  LinkCost far;   // between islands: the ranks of one share a port
  // A larger message sets off once the sender knows that its receive was posted.
  uint64_t ahead_bytes = 8 << 10;
  LinkSource source = LinkSource::kDefault;  // of `far`

  static LinkModel Default() {
    return {.near = {.latency_ns = 500, .overhead_ns = 300, .ns_per_byte = 0.2},
            .far = {.latency_ns = 15'000, .overhead_ns = 3'000, .ns_per_byte = 0.32}};
  }

  const LinkCost& CostOf(bool same_island) const { return same_island ? near : far; }
};

}  // namespace weft
