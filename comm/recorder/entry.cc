#include "comm/recorder/entry.h"

namespace weft {

RecorderWords CopyEntry(const RecorderEntry& entry) {
  constexpr auto kAcquire = std::memory_order_acquire;
  RecorderWords copy{};
  const uint64_t number = entry.words[0].load(kAcquire);
  for (size_t word = 1; word < copy.size(); ++word)
    copy[word] = entry.words[word].load(kAcquire);
  copy[0] = entry.words[0].load(kAcquire) == number ? number : 0;
  return copy;
}

}  // namespace weft
