// A group of listed ranks of a group that exists.
//
// Thread-safety: any thread; collective over the parent.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "comm/group/process_group.h"

namespace weft {

// INVALID_ARGUMENT unless `ranks` are one or more different ranks of a group of `size`.
absl::Status CheckRanks(const std::vector<int>& ranks, int size);

// ranks[i] of `parent` becomes rank i; nullptr on ranks that are not listed. MISMATCH on all ranks, with
// the parent in working order, if the lists differ. `ranks` have passed CheckRanks.
absl::StatusOr<std::shared_ptr<ProcessGroup>> CreateFromRanks(ProcessGroup& parent,
                                                              const std::vector<int>& ranks,
                                                              const GroupOptions& options);

}  // namespace weft
