// What the patterns that cut text into pieces know of a character: \p{L}, \p{N}, \s of Unicode, or
// none of them.
//
// The table of Unicode is utf8proc's. Characters that are younger than its version are kOther, as
// all are to which Unicode gives no meaning; the tokenizers package may have a younger table
// (README.md has the difference). A byte that begins no character of UTF-8 is a character of one
// byte, and kOther.
//
// Thread-safety: pure functions.
#ifndef WEFT_TRAINER_TOKENIZER_CHAR_CLASS_H_
#define WEFT_TRAINER_TOKENIZER_CHAR_CLASS_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace weft::trainer {

enum class CharClass : uint8_t { kOther, kLetter, kNumber, kSpace };

struct Char {
  CharClass kind;
  uint32_t bytes;  // that it takes in UTF-8
};

// Of a character that begins with a byte above 127.
Char WideCharAt(std::string_view text, size_t at);

constexpr CharClass AsciiClass(unsigned char c) {
  if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) return CharClass::kLetter;
  if (c >= '0' && c <= '9') return CharClass::kNumber;
  return c == ' ' || (c >= '\t' && c <= '\r') ? CharClass::kSpace : CharClass::kOther;
}

struct AsciiClasses {
  CharClass of[128];
};

constexpr AsciiClasses kAsciiClasses = [] {
  AsciiClasses classes{};
  for (unsigned char c = 0; c < 128; c++)
    classes.of[c] = AsciiClass(c);
  return classes;
}();

// Of the character that begins at `at`, which is below text.size().
inline Char CharAt(std::string_view text, size_t at) {
  const auto first = static_cast<unsigned char>(text[at]);
  if (first < 128) return {kAsciiClasses.of[first], 1};
  return WideCharAt(text, at);
}

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_TOKENIZER_CHAR_CLASS_H_
