#include "comm/agent/island_deaths.h"

#include <algorithm>

namespace weft {

std::vector<RankDeath> IslandDeaths::All() const {
  std::vector<RankDeath> all;
  for (const auto& [rank, death] : deaths_)
    all.push_back(death);
  return all;
}

void IslandDeaths::BeginEpoch(const IslandNumberSet& members) {
  ranks_ = ranks_.And(members);
  std::erase_if(deaths_, [&](const auto& entry) { return !members.Has(entry.first); });
  for (auto& [rank, death] : deaths_) {
    death.promised = 0;
    death.accepted = false;
  }
}

// The most that was promised at any of the deaths stands for all of them. So some count in fewer ballots than they might, which is safe (A3).
EndedIsland IslandDeaths::Ended(const IslandMap& map, int island) const {
  EndedIsland ended{.island = island};
  uint64_t bit = 1;
  for (const int rank : map.RanksOf(island)) {
    if (const auto known = deaths_.find(rank); known != deaths_.end()) {
      const RankDeath& death = known->second;
      if (death.left) ended.left |= bit;
      ended.promised = std::max(ended.promised, death.promised);
      ended.accepted = ended.accepted || death.accepted;
    }
    bit <<= 1;
  }
  return ended;
}

void IslandDeaths::Restore(const IslandMap& map, const IslandNumberSet& members,
                           const EndedIsland& ended) {
  uint64_t bit = 1;
  for (const int rank : map.RanksOf(ended.island)) {
    if (members.Has(rank)) {
      Merge({.world_rank = rank,
             .promised = ended.promised,
             .accepted = ended.accepted,
             .left = (ended.left & bit) != 0});
    }
    bit <<= 1;
  }
}

IslandNumberSet IslandDeaths::EndedIslands(const IslandMap& map,
                                           const IslandMembership& membership) const {
  IslandNumberSet ended(map.island_count());
  if (deaths_.empty()) return ended;
  for (const auto& [rank, death] : deaths_)
    ended.Add(map.IslandOf(rank));
  for (const int rank : membership.ranks().Minus(ranks_).Numbers())
    ended.Remove(map.IslandOf(rank));
  return ended;
}

}  // namespace weft
