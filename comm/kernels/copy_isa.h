// What each instruction set's translation unit offers to the table in copy.cc. Only to be called on a
// CPU that has the instruction set.
#pragma once

#include <cstddef>

namespace weft {

#if defined(__x86_64__)
void StreamCopyAvx2(void* to, const void* from, size_t bytes);
void StreamCopyAvx512(void* to, const void* from, size_t bytes);
#endif

}  // namespace weft
