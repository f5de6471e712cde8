// Heap blocks of groups that this rank has left while others may still read them.
//
// A group's segment and staging belong to a rank's heap. Staging is given back when every other rank
// has left the group or its process has ended; the segment when, besides, nobody has staging left and
// so need for the segment. Tried when the group is closed, and again whenever a group of this process
// is made or closed.
// Thread-safety: any thread.
#pragma once

#include "comm/node/node_state.h"

namespace weft {

// This rank is kLeaving: frees what is its own of the group as soon as nobody needs it. Waits a moment
// (50 ms) for the others, which usually leave at the same time.
void LeaveBehind(const NodeState& state);

void ReapRemains();

}  // namespace weft
