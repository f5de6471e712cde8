#include "comm/agent/island_deaths.h"

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
