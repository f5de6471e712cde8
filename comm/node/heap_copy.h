// A block of the process's heap with a copy of memory that is not in it.
//
//   WEFT_ASSIGN_OR_RETURN(void* view, AllocateCopy(foreign, bytes));
//   ...
//   ProcessHeap().Free(view);
//
// Thread-safety: any thread.
#pragma once

#include <cstddef>

#include "absl/status/statusor.h"

namespace weft {

// `bytes` > 0. A copy that the caches do not hold is written by stores that bypass them, as an operation's
// output is. Errors: those of Heap::Allocate.
absl::StatusOr<void*> AllocateCopy(const void* from, size_t bytes);

}  // namespace weft
