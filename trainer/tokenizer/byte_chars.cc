#include "trainer/tokenizer/byte_chars.h"

#include <cstddef>

namespace weft::trainer {
namespace {

constexpr size_t kChars = 256 + 68;

constexpr bool StandsForItself(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad);
}

struct ByteChars {
  uint16_t char_of[256] = {};    // a code point
  int16_t byte_of[kChars] = {};  // or -1
};

constexpr ByteChars kByteChars = [] {
  ByteChars chars;
  for (int16_t& byte : chars.byte_of)
    byte = -1;
  uint16_t next = 256;
  for (unsigned byte = 0; byte < 256; byte++) {
    chars.char_of[byte] = StandsForItself(byte) ? uint16_t(byte) : next++;
    chars.byte_of[chars.char_of[byte]] = int16_t(byte);
  }
  return chars;
}();

}  // namespace

std::array<uint8_t, 256> BytesInOrderOfChars() {
  std::array<uint8_t, 256> bytes{};
  size_t count = 0;
  for (const int16_t byte : kByteChars.byte_of) {
    if (byte >= 0) bytes[count++] = uint8_t(byte);
  }
  return bytes;
}

// The characters are below U+0144: one or two bytes of UTF-8.
std::string SpellBytes(std::string_view bytes) {
  std::string spelled;
  for (const char byte : bytes) {
    const unsigned c = kByteChars.char_of[static_cast<unsigned char>(byte)];
    if (c < 0x80) {
      spelled.push_back(char(c));
    } else {
      spelled.push_back(char(0xc0 | c >> 6));
      spelled.push_back(char(0x80 | (c & 0x3f)));
    }
  }
  return spelled;
}

std::optional<std::string> BytesOf(std::string_view spelled) {
  std::string bytes;
  for (size_t i = 0; i < spelled.size(); i++) {
    unsigned c = static_cast<unsigned char>(spelled[i]);
    if (c >= 0x80) {
      if (c < 0xc2 || c > 0xc5 || i + 1 == spelled.size()) return std::nullopt;
      const unsigned second = static_cast<unsigned char>(spelled[++i]);
      if ((second & 0xc0) != 0x80) return std::nullopt;
      c = (c & 0x1f) << 6 | (second & 0x3f);
    }
    if (c >= kChars || kByteChars.byte_of[c] < 0) return std::nullopt;
    bytes.push_back(char(kByteChars.byte_of[c]));
  }
  return bytes;
}

}  // namespace weft::trainer
