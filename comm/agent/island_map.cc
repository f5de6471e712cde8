#include "comm/agent/island_map.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace weft {

IslandMap::IslandMap(std::vector<Island> islands, int rank_count, int store_island)
    : islands_(std::move(islands)),
      island_of_rank_(static_cast<size_t>(rank_count), -1),
      rank_count_(rank_count),
      store_island_(store_island) {
  WEFT_CHECK(!islands_.empty() && islands_.size() <= IslandTopology::kIslandsMax);
  for (size_t i = 0; i < islands_.size(); ++i) {
    WEFT_CHECK(islands_[i].processes.size() <= kIslandProcessesMax);
    for (const IslandProcess& process : islands_[i].processes) {
      if (process.world_rank < 0 || process.world_rank >= rank_count) continue;
      WEFT_CHECK(island_of_rank_[static_cast<size_t>(process.world_rank)] == -1);
      island_of_rank_[static_cast<size_t>(process.world_rank)] = static_cast<int>(i);
    }
  }
}

int IslandMap::IslandOf(int world_rank) const {
  if (world_rank < 0 || world_rank >= rank_count_) return -1;
  return island_of_rank_[static_cast<size_t>(world_rank)];
}

std::vector<int> IslandMap::RanksOf(int number) const {
  std::vector<int> ranks;
  for (const IslandProcess& process : island(number).processes) {
    if (process.world_rank >= 0) ranks.push_back(process.world_rank);
  }
  return ranks;
}

int IslandMap::Find(int number, int32_t pid, uint64_t start_time) const {
  if (number < 0 || number >= island_count()) return -1;
  const std::vector<IslandProcess>& processes = island(number).processes;
  for (size_t i = 0; i < processes.size(); ++i) {
    if (processes[i].pid == pid && processes[i].start_time == start_time) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

IslandMembership::IslandMembership(const IslandMap& map, uint32_t epoch, IslandNumberSet ranks)
    : epoch_(epoch),
      ranks_(std::move(ranks)),
      islands_(map.island_count()),
      topology_(1),
      tie_island_(map.store_island()) {
  for (const int rank : ranks_.Numbers())
    islands_.Add(map.IslandOf(rank));
  order_ = islands_.Numbers();
  topology_ = IslandTopology(std::max(1, static_cast<int>(order_.size())));
  if (!islands_.Has(tie_island_)) tie_island_ = islands_.First();
}

int IslandMembership::PlaceOf(int island) const {
  const auto found = std::lower_bound(order_.begin(), order_.end(), island);
  if (found == order_.end() || *found != island) return -1;
  return static_cast<int>(found - order_.begin());
}

std::vector<int> IslandMembership::NeighboursOf(int island) const {
  const int place = PlaceOf(island);
  std::vector<int> neighbours;
  if (place < 0) return neighbours;
  for (const int other : topology_.NeighboursOf(place))
    neighbours.push_back(order_[static_cast<size_t>(other)]);
  return neighbours;
}

bool IslandMembership::AreNeighbours(int a, int b) const {
  const int place_a = PlaceOf(a);
  const int place_b = PlaceOf(b);
  return place_a >= 0 && place_b >= 0 && topology_.AreNeighbours(place_a, place_b);
}

bool IslandMembership::DialsFirst(int a, int b) const {
  const int place_a = PlaceOf(a);
  const int place_b = PlaceOf(b);
  return place_a >= 0 && place_b >= 0 && topology_.DialsFirst(place_a, place_b);
}

}  // namespace weft
