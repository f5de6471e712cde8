// What a node group does for a call, and why, in lines of "name: value".
//
// Thread-safety: pure functions over what is constant in a NodeState.
#pragma once

#include <string>

#include "comm/group/collective.h"
#include "comm/group/process_group.h"
#include "comm/node/node_state.h"

namespace weft {

// `call` has its counts and no buffers.
std::string ExplainCollective(const Collective& call, BufferKind buffers, const NodeState& state);

}  // namespace weft
