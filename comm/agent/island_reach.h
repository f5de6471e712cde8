// Which islands can be reached, over however many others: what every island says of its connections, put together.
//
//   reach.SetOwn(lost, extra, stalled);        // this island's connections, compared with the topology's
//   if (reach.Merge(report)) ...               // somebody else's; true: news, tell the neighbours
//   for (int island : reach.Judge(now_ns, ended)) ...   // cannot be reached, and has not been for too long
//
// A connection of the topology is there unless one of its islands says that it is not; another one is there if both say so.
// So an idle job says nothing, and a lost connection is told once. An island that has lost a connection but is connected
// over others is not missing. Whoever is missing for `confirm_ns` is unreachable, until it is connected again: that is no
// word on whether its processes live.
//
// Thread-safety: owned by one thread. Memory: what islands have reported, and when those that are missing were last there.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "comm/agent/island_map.h"
#include "comm/agent/island_protocol.h"

namespace weft {

class IslandReach {
 public:
  // `membership` outlives it. `first_number`: of this island's reports; above those of speakers before, of whom there were
  // none if it is 0: that the first one has all its connections need not be said.
  IslandReach(const IslandMembership& membership, int island_count, int self, int64_t confirm_ns,
              uint64_t first_number);

  // True if that is news, to be told.
  bool SetOwn(std::vector<int32_t> lost, std::vector<int32_t> extra,
              std::vector<int32_t> stalled = {});

  const ReachReport& own() const { return reports_.at(self_); }

  bool Merge(const ReachReport& report);

  // All that differ from the topology, for a new connection.
  std::vector<ReachReport> All() const;

  // Those that this island is connected with, over others or directly, and this one.
  const IslandNumberSet& connected() const { return connected_; }

  // Not connected for too long, as of the last Judge().
  const IslandNumberSet& unreachable() const { return unreachable_; }

  // Connected ones whose processes do not answer though their machine does, by what those say that are connected and not stalled themselves.
  IslandNumberSet Stalled() const;

  // Islands of the membership, other than `ended`, that are neither connected nor unreachable yet.
  bool InDoubt() const { return !missing_since_ns_.empty(); }

  // `island` has answered: it is there, whatever is said of connections.
  void Heard(int island, int64_t now_ns);

  // Who has become unreachable. `ended`: islands that are known to have ended and are not looked for.
  std::vector<int> Judge(int64_t now_ns, const IslandNumberSet& ended);
  // When Judge() may have news.
  int64_t NextWakeNs() const;

 private:
  bool Lost(int by, int peer) const;
  bool HasExtra(int by, int peer) const;
  void Connect(const IslandNumberSet& ended);

  const IslandMembership& membership_;
  const int island_count_;
  const int self_;
  const int64_t confirm_ns_;
  std::map<int, ReachReport> reports_;
  bool changed_ = true;    // since connected_ was computed
  IslandNumberSet ended_;  // as of then
  IslandNumberSet connected_;
  IslandNumberSet unreachable_;
  std::map<int, int64_t> missing_since_ns_;
};

}  // namespace weft
