#include "comm/hierarchy/islands.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "base/net.h"
#include "base/status.h"
#include "base/text.h"
#include "fmt/format.h"

namespace weft {

int Islands::PlaceOf(int rank) const {
  const std::vector<int>& fellows =
      ranks[static_cast<size_t>(island_of[static_cast<size_t>(rank)])];
  return static_cast<int>(std::lower_bound(fellows.begin(), fellows.end(), rank) - fellows.begin());
}

Islands IslandsOf(const Membership& membership) {
  Islands islands;
  std::map<std::tuple<std::string, uint64_t, uint64_t, uint32_t, int>, int> numbers;
  for (const GroupMember& member : membership.members) {
    const auto [known, added] =
        numbers.try_emplace({member.boot_id, member.pid_namespace, member.network_namespace,
                             member.uid, member.fake_node},
                            islands.count());
    if (added) islands.ranks.emplace_back();
    islands.ranks[static_cast<size_t>(known->second)].push_back(member.rank);
    islands.island_of.push_back(known->second);
  }
  return islands;
}

absl::StatusOr<std::shared_ptr<const IslandMap>> MapOf(const Membership& membership,
                                                       const Islands& islands) {
  if (islands.count() > IslandTopology::kIslandsMax) {
    return MakeError(WEFT_UNSUPPORTED, fmt::format("{} nodes; this version has at most {}",
                                                   islands.count(), IslandTopology::kIslandsMax));
  }
  std::vector<Island> list;
  for (const std::vector<int>& ranks : islands.ranks) {
    if (ranks.size() >= kIslandProcessesMax) {
      const GroupMember& first = membership.members[static_cast<size_t>(ranks.front())];
      return MakeError(WEFT_UNSUPPORTED, {.rank = first.rank, .host = first.host},
                       fmt::format("{} ranks are on the node of rank {}, host {}; this version has "
                                   "at most {} on one node",
                                   ranks.size(), first.rank, first.host, kIslandProcessesMax - 1));
    }
    Island& island = list.emplace_back();
    for (const int rank : ranks) {
      const GroupMember& member = membership.members[static_cast<size_t>(rank)];
      if (member.agent.empty()) {
        return MakeError(WEFT_REMOTE_ERROR, {.rank = rank, .pid = member.pid, .host = member.host},
                         StrCat("rank ", rank, " on host ", member.host,
                                " has no address where others reach it; its own error says why"));
      }
      const absl::StatusOr<Endpoint> endpoint = ParseEndpoint(member.agent);
      if (!endpoint.ok()) {
        return MakeError(
            WEFT_CORRUPT, {.rank = rank, .pid = member.pid, .host = member.host},
            StrCat("rank ", rank, " on host ", member.host, " says that its agent listens on '",
                   member.agent, "', which is no address"));
      }
      island.processes.push_back({.world_rank = rank,
                                  .pid = member.pid,
                                  .start_time = member.start_time,
                                  .endpoint = *endpoint});
    }
  }
  return std::make_shared<const IslandMap>(
      std::move(list), static_cast<int>(membership.members.size()), islands.island_of[0]);
}

}  // namespace weft
