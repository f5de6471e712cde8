// The ranks of a segment as its user knows them: by rank in the group, in the world that it was split from, by host and pid.
//
//   names.NameOf(2)                    // "rank 2", "rank 2 of group dp (world rank 6)"; of an island, "rank 10"
//   names.FieldsOf(2)                  // for an error: rank, world rank, pid, host, group
//
// Thread-safety: any thread; immutable.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "comm/node/node_state.h"

namespace weft {

class RankNames {
 public:
  // Both outlive the object; of `state` only the constants are used.
  RankNames(const NodeState& state, const std::string& group_name)
      : state_(state), group_(group_name) {}

  const std::string& group() const { return group_; }

  // "rank 2", of a group that was split from another one "rank 2 of group dp (world rank 6)"; with facts about it
  // "rank 2 (facts)".
  std::string NameOf(int rank, std::string_view facts = {}) const;

  // "rank 2", "ranks 0, 3".
  std::string ListOf(const std::vector<int>& ranks) const;

  // What an error says of it, by its rank in the segment; of the group only if `rank` is -1.
  ErrorFields FieldsOf(int rank) const;

 private:
  bool Renumbered() const;
  std::string WorldRanks(const std::vector<int>& ranks) const;

  const NodeState& state_;
  const std::string& group_;
};

}  // namespace weft
