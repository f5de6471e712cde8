// Cutting a node group.
//
// The members of each part are agreed by two small collectives of the parent; the part's segment goes into its first rank's
// heap, which all members have mapped already. No message, no descriptor, no new mapping.
// Thread-safety: any thread, inside the parent's gate.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "comm/group/process_group.h"
#include "comm/node/failed_splits.h"
#include "comm/node/node_state.h"
#include "comm/node/parts.h"

namespace weft {

struct SplitParent {
  Whole whole;
  const NodeState& state;
  const GroupOptions& options;
  FailedSplits& failed;  // keeps the segment of a part that this rank leads and cannot join
};

// As ProcessGroup::Split.
absl::StatusOr<std::shared_ptr<ProcessGroup>> SplitNodeGroup(const SplitParent& parent, int color,
                                                             int key, const GroupOptions& options);

}  // namespace weft
