// Heap blocks of groups that this rank has left while others may still read them.
//
// A group's segment, staging and channels belong to a rank's heap. Staging and channels are given back
// when every other rank has left the group or its process has ended; the segment when, besides, nobody
// has any of them left and so need for the segment. A rank that was told to enter the group and has
// given up has left it, however late that was (entrants.h). Tried when the group is closed, and again
// whenever a group of this process is made or closed.
// A segment that this rank offered in a split, and that the failure of the parent kept it from joining,
// goes back when the parent's ranks can no longer come to it: a rank that is kLeaving in the parent has
// ended its split.
// Thread-safety: any thread.
#pragma once

#include <vector>

#include "comm/node/failed_splits.h"
#include "comm/node/node_state.h"

namespace weft {

// This rank is kLeaving: frees what is its own of the group, and of its failed splits, as soon as nobody
// needs it: staging, `blocks` (which peers may read like staging), segments. Waits a moment (50 ms) for
// the others, which usually leave at the same time.
void ReclaimLater(const NodeState& state, std::vector<void*> blocks,
                  std::vector<FailedSplit> failed_splits);

// Frees what groups of this process have left behind and nobody needs any more.
void ReclaimDeferred();

}  // namespace weft
