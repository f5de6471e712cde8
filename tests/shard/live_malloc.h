// Bytes that were asked of malloc and its relatives in this program, which this replaces.
//
//   const int64_t before = LiveMallocBytes();
//   ...
//   EXPECT_EQ(LiveMallocBytes(), before);
//
// Link it into one program of its own. Sanitizers replace malloc themselves: in their builds nothing is counted.
// Thread-safety: any thread; all threads' blocks are counted.
#pragma once

#include <cstdint>

namespace weft {

// False in builds with sanitizers; then the numbers are 0.
bool CountsMalloc();

int64_t LiveMallocBytes();

// The most since the program began, or the last call of this, which begins anew.
int64_t TakeMallocPeak();

}  // namespace weft
