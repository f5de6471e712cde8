// Joining a group that runs, as a process that was not in it: the side of the newcomer (growth.h: that of the group's ranks).
//
//   WEFT_ASSIGN_OR_RETURN(std::shared_ptr<ProcessGroup> group, JoinNodeGroup(store, {.name = "world"}, -1));
//
// Thread-safety: any thread.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "comm/group/process_group.h"
#include "comm/rendezvous/store.h"

namespace weft {

// Waits until the ranks of group `options.name`, which are met in `store`, take this process in; rank and size are theirs to say.
// `world_rank`: the number by which messages call it, if no member has it; -1: one above those of all members. If the ranks give up, because
// one of them dies say, it waits for their next attempt. TIMEOUT at the deadline of making a group; INTERRUPTED.
absl::StatusOr<std::shared_ptr<ProcessGroup>> JoinNodeGroup(Store& store,
                                                            const GroupOptions& options,
                                                            int world_rank);

}  // namespace weft
