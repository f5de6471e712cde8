// Which member ranks have ended: facts, each seen by its own island.
//
//   if (deaths.Merge(death)) ...      // news, to be told
//   deaths.ranks().Has(3)
//   state.elsewhere.push_back(deaths.Ended(map, island));   // to be remembered by its next speaker
//
// A fact stays one; merging it again does nothing.
// Thread-safety: owned by one thread.
#pragma once

#include <map>
#include <vector>

#include "comm/agent/island_map.h"
#include "comm/agent/island_memory.h"
#include "comm/agent/island_number_set.h"
#include "comm/agent/island_protocol.h"

namespace weft {

class IslandDeaths {
 public:
  explicit IslandDeaths(int rank_count) : ranks_(rank_count) {}

  // True if that rank was not known to have ended.
  bool Merge(const RankDeath& death) {
    if (!ranks_.Add(death.world_rank)) return false;
    deaths_[death.world_rank] = death;
    return true;
  }

  const IslandNumberSet& ranks() const { return ranks_; }

  // Of a rank that has ended.
  const RankDeath& Of(int world_rank) const { return deaths_.at(world_rank); }

  std::vector<RankDeath> All() const;

  // The members of the new epoch that have ended are facts in it as well; of what islands had promised in the one before
  // nothing is left.
  void BeginEpoch(const IslandNumberSet& members);

  // Of an island all of whose member ranks have ended: what is remembered of it, and taken up again. How its processes died is not.
  EndedIsland Ended(const IslandMap& map, int island) const;
  void Restore(const IslandMap& map, const IslandNumberSet& members, const EndedIsland& ended);

  // Islands all of whose member ranks have ended.
  IslandNumberSet EndedIslands(const IslandMap& map, const IslandMembership& membership) const;

 private:
  IslandNumberSet ranks_;
  std::map<int, RankDeath> deaths_;
};

}  // namespace weft
