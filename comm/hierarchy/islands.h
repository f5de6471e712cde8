// Which ranks of a group share an island, by what each has said of itself when they met.
//
//   const Islands islands = IslandsOf(membership);
//   islands.ranks[1]                              // of the second island, in ascending order
//
// Ranks share one if they are on the same machine, in one pid namespace, since an agent knows its fellows by their pids, in one network
// namespace, since a segment's descriptors go over abstract unix sockets, of one user, who may open the other's memory, and on the same
// fake node. So containers of one machine that share none of that are islands of their own. That they can map each other's memory is proven only when they do.
// Thread-safety: values and pure functions.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "comm/agent/island_map.h"
#include "comm/rendezvous/membership.h"

namespace weft {

struct Islands {
  std::vector<std::vector<int>> ranks;  // by island; islands in the order of their first ranks
  std::vector<int> island_of;           // by rank

  int count() const { return static_cast<int>(ranks.size()); }

  // Its number among the ranks of its island.
  int PlaceOf(int rank) const;
};

Islands IslandsOf(const Membership& membership);

// As the agents see it. The store is on the island of rank 0. CORRUPT if a member has said nothing of where its agent listens,
// UNSUPPORTED if an island has too many ranks.
absl::StatusOr<std::shared_ptr<const IslandMap>> MapOf(const Membership& membership,
                                                       const Islands& islands);

}  // namespace weft
