// Do all ranks have the same list, and if not, where does it first differ?
//
//   WEFT_ASSIGN_OR_RETURN(std::optional<Difference> difference,
//                         FirstDifference(*group, digests, timeout_ns));
//
// One all_gather of 24 bytes per rank when the lists agree. When they do not, a binary search over
// running digests: one all_gather of 16 bytes per halving, so memory stays small for any number of
// ranks and entries. All ranks see the same digests, so all return the same answer.
//
// The majority is right, and ranks that differ from it are the outliers. Without a majority, as between two ranks,
// all sides are named.
//
// Thread-safety: collective calls; as the group's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "absl/status/statusor.h"
#include "base/status.h"
#include "comm/group/process_group.h"
#include "shard/checks/digest.h"

namespace weft {

// Ranks that have the same, one vector per value: the most frequent value first, of several that with the
// lowest rank.
using Sides = std::vector<std::vector<int>>;

struct Difference {
  size_t index = 0;  // of the first entry that is not the same on all ranks
  Sides sides;       // there; at least two
  std::vector<int>
      ranks;  // that are not on the first side: the outliers, if there is a majority; not empty
  bool majority = false;  // no other side is as large as the first
};

// `own` of every rank, by rank; `purpose`, here and below, is that of the collectives. Collective.
template <typename T>
absl::StatusOr<std::vector<T>> GatherValue(ProcessGroup& group, const T& own, int64_t timeout_ns,
                                           const CallPurpose& purpose = {}) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<T> all(static_cast<size_t>(group.size()));
  WEFT_RETURN_IF_ERROR(group.Run({.kind = OpKind::kAllGather,
                                  .dtype = WEFT_UINT8,
                                  .count = sizeof(T),
                                  .purpose = purpose,
                                  .in = &own,
                                  .out = all.data(),
                                  .timeout_ns = timeout_ns}));
  return all;
}

// Rank r is compared with ranks r + stride, r + 2 stride and so on; a difference is that of the first such
// set of ranks. 1: all with all.
absl::StatusOr<std::optional<Difference>> FirstDifference(ProcessGroup& group,
                                                          const std::vector<Digest>& entries,
                                                          int64_t timeout_ns, int stride = 1,
                                                          const CallPurpose& purpose = {});

// `digests` by rank.
Sides SidesOf(const std::vector<Digest>& digests);

// Every rank's text, by rank, each cut to 4096 bytes. Collective.
absl::StatusOr<std::vector<std::string>> GatherText(ProcessGroup& group, std::string_view text,
                                                    int64_t timeout_ns,
                                                    const CallPurpose& purpose = {});

// "ranks 0, 2 and rank 1"; of more than four sides "rank 0, rank 1, rank 2, rank 3 and 2 other ranks".
std::string SideList(const Sides& sides);

// With a majority "rank 1 has other values than ranks 0, 2", else "rank 0 and rank 1 have different values".
std::string WhoDiffers(const Difference& difference);

}  // namespace weft
