// Telling a forked child that a handle belongs to its parent.
//
// A child inherits the handles but not the mappings of the shared heap (MADV_DONTFORK): using one
// would fault. So a group remembers the generation it was made in, and calls compare.
// Thread-safety: any thread.
#pragma once

#include <cstdint>

namespace weft {

// Starts at 1 and is one higher in every forked child.
uint32_t ForkGeneration();

}  // namespace weft
