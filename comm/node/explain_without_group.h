// What a node group would do for a call, when there is no group: for tools.
//
//   Collective call{.kind = OpKind::kAllReduce, .dtype = WEFT_FLOAT32, .count = 1 << 20};
//   WEFT_ASSIGN_OR_RETURN(std::string text, ExplainWithoutGroup(call, BufferKind::kPrivate, 8));
//
// Thread-safety: any thread. May measure the machine, as ProcessModel() does.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "comm/group/collective.h"
#include "comm/group/process_group.h"

namespace weft {

// ExplainCollective for `ranks` ranks (1 to kNodeRanksMax) on this machine, with this process's model and
// settings. Whether ranks may read each other's memory is known when they meet; here it is taken to be so
// unless WEFT_SINGLE_COPY forbids it. INVALID_ARGUMENT for a number of ranks or an instruction set
// (WEFT_ISA) that cannot be.
absl::StatusOr<std::string> ExplainWithoutGroup(const Collective& call, BufferKind buffers,
                                                int ranks);

}  // namespace weft
