// A version, which is odd while the text is written, a length, and the bytes. Words are atomic, written with release and read with acquire:
// who has read a word of a later write finds another version after it.
#include "comm/agent/shared_text.h"

#include <algorithm>
#include <cstring>

#include "base/cache_line.h"
#include "base/check.h"

namespace weft {
namespace {

constexpr size_t kWordBytes = sizeof(uint64_t);
constexpr size_t kHeaderWords = 2;

size_t WholeWords(size_t bytes) {
  return (bytes + kWordBytes - 1) / kWordBytes;
}

}  // namespace

size_t SharedText::BytesFor(size_t text_bytes_max) {
  const size_t bytes = (kHeaderWords + WholeWords(text_bytes_max)) * kWordBytes;
  return (bytes + kCacheLineBytes - 1) / kCacheLineBytes * kCacheLineBytes;
}

std::atomic<uint64_t>& SharedText::Word(size_t index) const {
  static_assert(std::atomic<uint64_t>::is_always_lock_free);
  return reinterpret_cast<std::atomic<uint64_t>*>(block_)[index];
}

void SharedText::Write(std::string_view text) {
  WEFT_CHECK(text.size() <= text_bytes_max_);
  const uint64_t version = Word(0).load(std::memory_order_relaxed);
  Word(0).store(version + 1, std::memory_order_seq_cst);
  Word(1).store(text.size(), std::memory_order_release);
  for (size_t i = 0; i < WholeWords(text.size()); ++i) {
    uint64_t word = 0;
    std::memcpy(&word, text.data() + i * kWordBytes,
                std::min(kWordBytes, text.size() - i * kWordBytes));
    Word(kHeaderWords + i).store(word, std::memory_order_release);
  }
  Word(0).store(version + 2, std::memory_order_release);
}

std::optional<std::string> SharedText::Read(uint64_t* version) const {
  const uint64_t before = Word(0).load(std::memory_order_acquire);
  if (before == *version || before % 2 != 0) return std::nullopt;
  const size_t length = std::min<size_t>(Word(1).load(std::memory_order_acquire), text_bytes_max_);
  std::string text(WholeWords(length) * kWordBytes, '\0');
  for (size_t i = 0; i < WholeWords(length); ++i) {
    const uint64_t word = Word(kHeaderWords + i).load(std::memory_order_acquire);
    std::memcpy(text.data() + i * kWordBytes, &word, kWordBytes);
  }
  if (Word(0).load(std::memory_order_acquire) != before) return std::nullopt;
  *version = before;
  text.resize(length);
  return text;
}

}  // namespace weft
