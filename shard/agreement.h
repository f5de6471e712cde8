// Do all ranks have the same list, and if not, where does it first differ?
//
//   WEFT_ASSIGN_OR_RETURN(std::optional<Difference> difference,
//                         FirstDifference(*group, digests, timeout_ns));
//
// One all_gather of 24 bytes per rank when the lists agree. When they do not, a binary search over
// running digests: one all_gather of 16 bytes per halving, so memory stays small for any number of
// ranks and entries. All ranks see the same digests, so all return the same answer.
//
// Thread-safety: collective calls; as the group's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "comm/group/process_group.h"
#include "shard/digest.h"

namespace weft {

struct Difference {
  size_t index = 0;        // of the first entry that is not the same on all ranks
  std::vector<int> ranks;  // that differ there from rank 0; not empty
};

absl::StatusOr<std::optional<Difference>> FirstDifference(ProcessGroup& group,
                                                          const std::vector<Digest>& entries,
                                                          int64_t timeout_ns);

// Every rank's text, by rank, each cut to 4096 bytes. Collective.
absl::StatusOr<std::vector<std::string>> GatherText(ProcessGroup& group, std::string_view text,
                                                    int64_t timeout_ns);

// Every rank's number, by rank. Collective.
absl::StatusOr<std::vector<uint64_t>> GatherNumber(ProcessGroup& group, uint64_t number,
                                                   int64_t timeout_ns);

// "rank 2", "ranks 2, 5"; of more than 8, "ranks 1, 2, 3, 4, 5, 6, 7, 8 and 12 more".
std::string RankList(const std::vector<int>& ranks);

}  // namespace weft
