#include "trainer/tokenizer/char_class.h"

#include <algorithm>

#include <utf8proc.h>

namespace weft::trainer {
namespace {

constexpr size_t kUtf8BytesMax = 4;
constexpr utf8proc_int32_t kNextLine =
    0x85;  // a control character by its category, and white space all the same

CharClass ClassOf(utf8proc_int32_t character) {
  switch (utf8proc_category(character)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return CharClass::kLetter;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return CharClass::kNumber;
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return CharClass::kSpace;
    default:
      return character == kNextLine ? CharClass::kSpace : CharClass::kOther;
  }
}

}  // namespace

Char WideCharAt(std::string_view text, size_t at) {
  const size_t bytes = std::min(text.size() - at, kUtf8BytesMax);
  utf8proc_int32_t character = -1;
  const utf8proc_ssize_t taken =
      utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + at,
                       utf8proc_ssize_t(bytes), &character);
  if (taken <= 0 || character < 0) return {CharClass::kOther, 1};
  return {ClassOf(character), uint32_t(taken)};
}

}  // namespace weft::trainer
