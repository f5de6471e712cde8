// Have all ranks declared the same? finalize asks before it allocates anything.
//
//   WEFT_RETURN_IF_ERROR(CompareDeclarations(core));
//
// Thread-safety: a collective call, by the thread in finalize.
#pragma once

#include "absl/status/status.h"
#include "shard/context/context_core.h"

namespace weft {

// Ok, or MISMATCH with the first declaration in which ranks differ and what two of them have there.
absl::Status CompareDeclarations(ContextCore& core);

}  // namespace weft
