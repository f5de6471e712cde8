// Who belongs to a job, island by island, and how to reach them; and who of them is a member in an epoch.
//
// An island is the ranks that map each other's memory. Its processes are listed in the order in which they speak for it:
// by world rank, then, where there is one, the launcher's agent of that machine, which is no rank.
//
// Islands and world ranks keep their numbers when the membership changes. IslandMembership is one epoch of it; its
// islands, those that have member ranks, stand in the topology in ascending order.
// Thread-safety: values; constant after construction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/net.h"
#include "comm/agent/island_number_set.h"
#include "comm/agent/island_topology.h"

namespace weft {

struct IslandProcess {
  int32_t world_rank = -1;  // -1: the launcher's agent
  int32_t pid = 0;
  uint64_t start_time = 0;
  Endpoint endpoint;  // where it listens while it speaks
};

// Ranks that map each other's memory are at most 64; and the launcher's agent.
constexpr size_t kIslandProcessesMax = 65;

struct Island {
  std::vector<IslandProcess> processes;
};

class IslandMap {
 public:
  // `rank_count` world ranks, each on one island. `store_island` holds the store.
  IslandMap(std::vector<Island> islands, int rank_count, int store_island);

  int island_count() const { return static_cast<int>(islands_.size()); }

  int rank_count() const { return rank_count_; }

  int store_island() const { return store_island_; }

  const Island& island(int number) const { return islands_[static_cast<size_t>(number)]; }

  // -1 for no rank of the job.
  int IslandOf(int world_rank) const;
  // In ascending order of the list.
  std::vector<int> RanksOf(int island) const;

  // The place in the island's list of the process with this pid and start time; -1: none.
  int Find(int island, int32_t pid, uint64_t start_time) const;

 private:
  std::vector<Island> islands_;
  std::vector<int> island_of_rank_;
  int rank_count_;
  int store_island_;
};

class IslandMembership {
 public:
  IslandMembership(const IslandMap& map, uint32_t epoch, IslandNumberSet ranks);

  uint32_t epoch() const { return epoch_; }

  const IslandNumberSet& ranks() const { return ranks_; }

  const IslandNumberSet& islands() const { return islands_; }

  // The islands that `island` holds connections to; none if it is not among the members.
  std::vector<int> NeighboursOf(int island) const;
  bool AreNeighbours(int a, int b) const;
  bool DialsFirst(int a, int b) const;

  // A tie of votes goes to its side: the store's island while it has members, else the first one that has.
  int tie_island() const { return tie_island_; }

 private:
  int PlaceOf(int island) const;

  uint32_t epoch_;
  IslandNumberSet ranks_;
  IslandNumberSet islands_;
  std::vector<int> order_;  // islands by place
  IslandTopology topology_;
  int tie_island_;
};

}  // namespace weft
