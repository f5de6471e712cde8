#include <cstring>

#include "comm/kernels/reduce.h"

namespace weft {

void CopyBytes(const void* source, void* const* destinations, int destination_count, size_t bytes) {
  // A tile stays in the L1 cache (32 KiB and up) while it is written to each destination, so the
  // source is read from memory once.
  constexpr size_t kTileBytes = 8192;
  const size_t step = destination_count == 1 ? bytes : kTileBytes;
  for (size_t done = 0; done < bytes; done += step) {
    const size_t left = bytes - done;
    const size_t length = left < step ? left : step;
    for (int d = 0; d < destination_count; ++d) {
      if (destinations[d] == source) continue;
      std::memcpy(static_cast<char*>(destinations[d]) + done,
                  static_cast<const char*>(source) + done, length);
    }
  }
}

}  // namespace weft
