// Making the group in which the ranks of a node group go on after some of them are gone, or in another order.
//
// Agreement is in the old group's segment (reconfigure_board.h), which stays readable whoever dies, and knows death from
// processes alone: no message, no store. The new segment goes into the heap of its first rank, which all members have mapped.
// Thread-safety: any thread, inside the old group's gate; one at a time of a rank.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "comm/group/process_group.h"
#include "comm/node/failed_splits.h"
#include "comm/node/failure.h"
#include "comm/node/node_state.h"

namespace weft {

struct OldGroup {
  const NodeState& state;
  const GroupOptions& options;
  FailureReporter& failures;
  FailedSplits& failed;  // keeps the segment of a group that this rank leads and cannot join
};

// As ProcessGroup::Reconfigure, but for closing the old group.
absl::StatusOr<std::shared_ptr<ProcessGroup>> ReconfigureNodeGroup(const OldGroup& old,
                                                                   const std::vector<int>& members,
                                                                   const GroupOptions& options);

}  // namespace weft
