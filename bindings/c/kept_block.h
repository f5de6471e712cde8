// Blocks of weft's heap that a caller keeps by a pointer into them.
//
//   WEFT_ASSIGN_OR_RETURN(void* const block, KeepBlock(kCall, pointer));
//   ...
//   (void)ProcessHeap().Free(block);
//
// Thread-safety: any thread.
#pragma once

#include "absl/status/statusor.h"

namespace weft {

// Adds an owner to the block that holds `pointer`, and returns where it begins. In mem.cc. The errors of weft_mem_retain, which
// name `call`.
absl::StatusOr<void*> KeepBlock(const char* call, const void* pointer);

}  // namespace weft
