#include "shard/offload/value_runs.h"

#include <algorithm>

namespace weft {

std::vector<ValueRun> ValueRunsOf(const StateWindows& windows, int extent, size_t buffer_bytes) {
  std::vector<ValueRun> runs;
  for (const WindowedStretch& stretch : windows.stretches[static_cast<size_t>(extent)]) {
    const size_t size = stretch.elements.needs.value_bytes;
    ValueRun next{.offset = windows.places[static_cast<size_t>(stretch.window)].offset +
                            stretch.At(WEFT_SHARD_STATE_VALUE),
                  .first = stretch.elements.first};
    size_t left = stretch.elements.count * size;
    while (left > 0) {
      const auto skipped = static_cast<size_t>(next.offset - next.read_offset());
      next.bytes = std::min(left, buffer_bytes - skipped);
      runs.push_back(next);
      next.offset += next.bytes;
      next.first += next.bytes / size;
      left -= next.bytes;
    }
  }
  return runs;
}

}  // namespace weft
