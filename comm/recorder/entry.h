// One entry of the recorder's rings: a cache line of eight words in memory that a rank writes and its peers read, also after it
// has died in the middle of writing.
//
//   words[0].store(0), the others, words[0].store(number)    // its writer
//   RecorderWords words = CopyEntry(entry);                  // anybody; words[0] is 0 if it was torn
//
// Word 0 is the number of what is recorded, written 0 before and the number after the rest, so that a reader that sees the
// same number before and after has a whole entry. Every word is stored with release and loaded with acquire: who sees a word
// of a newer entry also sees that word 0 has changed.
//
// Thread-safety: one writer at a time, any number of readers.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace weft {

struct alignas(64) RecorderEntry {
  std::atomic<uint64_t> words[8];
};

static_assert(sizeof(RecorderEntry) == 64);

// An entry as it stood in the segment; word 0 is 0 if it held nothing or was being written.
using RecorderWords = std::array<uint64_t, 8>;

RecorderWords CopyEntry(const RecorderEntry& entry);

}  // namespace weft
