#include "base/utf8.h"

#include <cstddef>
#include <cstdint>

namespace weft {
namespace {

// Of the character that begins with this byte; 0: none does.
size_t BytesOfCharacter(uint8_t first) {
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return 2;
  if (first >= 0xe0 && first <= 0xef) return 3;
  if (first >= 0xf0 && first <= 0xf4) return 4;
  return 0;
}

// What the second byte may be at least and at most: longer forms than needed, surrogates and what is above U+10FFFF are told by it.
bool IsSecond(uint8_t first, uint8_t second) {
  const uint8_t least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  const uint8_t most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  return second >= least && second <= most;
}

}  // namespace

bool IsUtf8(std::string_view text) {
  const auto byte = [&](size_t at) {
    return static_cast<uint8_t>(text[at]);
  };
  for (size_t at = 0; at < text.size();) {
    const size_t bytes = BytesOfCharacter(byte(at));
    if (bytes == 0 || bytes > text.size() - at) return false;
    if (bytes > 1 && !IsSecond(byte(at), byte(at + 1))) return false;
    for (size_t i = 2; i < bytes; ++i) {
      if ((byte(at + i) & 0xc0) != 0x80) return false;
    }
    at += bytes;
  }
  return true;
}

}  // namespace weft
