// What CPUs hand each other at a time, on all machines that weft runs on.
#pragma once

#include <cstddef>

namespace weft {

inline constexpr size_t kCacheLineBytes = 64;

}  // namespace weft
