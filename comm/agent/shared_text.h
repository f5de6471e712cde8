// A text that one process writes and others read, in pages that they share: bytes of whoever's making, so a reader checks what they say.
//
//   SharedText text(block, 512);                   // block: BytesFor(512), aligned to a cache line
//   text.Write(bytes);                             // stays until the next one
//   uint64_t version = 0;
//   std::optional<std::string> read = text.Read(&version);
//
// A reader that meets a write takes the text as it will be the next time.
// Thread-safety: one writer; any number of readers. The block is borrowed; zeroed pages have no text.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace weft {

class SharedText {
 public:
  // A whole number of cache lines.
  static size_t BytesFor(size_t text_bytes_max);

  SharedText(std::byte* block, size_t text_bytes_max)
      : block_(block), text_bytes_max_(text_bytes_max) {}

  // Must fit.
  void Write(std::string_view text);

  // Nothing if its version is `*version`, which it is then.
  std::optional<std::string> Read(uint64_t* version) const;

 private:
  std::atomic<uint64_t>& Word(size_t index) const;

  std::byte* const block_;
  const size_t text_bytes_max_;
};

}  // namespace weft
