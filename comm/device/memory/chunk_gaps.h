// The free ranges of memory that is handed out in pieces.
//
//   ChunkGaps gaps;
//   gaps.Put({chunk, chunk + 0x200000}, {chunk, chunk + 0x200000});
//   std::optional<uint64_t> piece = gaps.Take(4096);    // of the smallest gap with room, of those the lowest
//   gaps.Put({*piece, *piece + 4096}, {chunk, chunk + 0x200000});
//
// The smallest gap first fills chunks that are nearly full, so that others become empty.
//
// Thread-safety: none of its own. Addresses are numbers: nothing is read or written there.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace weft {

class ChunkGaps {
 public:
  struct Range {
    uint64_t begin = 0;
    uint64_t end = 0;
  };

  // Gaps that touch become one if both lie in `within`, the chunk: the next chunk may begin where this one ends.
  void Put(Range gap, Range within);

  // Where `bytes` bytes are free, from now on not free; nothing if no gap has so many.
  std::optional<uint64_t> Take(uint64_t bytes);

  // Takes all of a range that is one gap.
  void TakeWhole(Range gap);

 private:
  void Add(Range gap);
  void Remove(std::map<uint64_t, uint64_t>::iterator gap);

  std::map<uint64_t, uint64_t> by_begin_;            // to the end
  std::set<std::pair<uint64_t, uint64_t>> by_size_;  // bytes and begin
};

}  // namespace weft
