// Files of byte-level vocabularies are text, and their tokens are any bytes: each byte is written
// as one character. Printable bytes of Latin-1 stand for themselves, the other 68 are written as
// the characters from U+0100 on ("Ġ" is a space).
//
//   SpellBytes(" the")      // "Ġthe"
//   BytesOf("Ġthe")         // " the"
//   BytesOf("<s> </s>")     // nullopt: a space is never written as itself
//
// Thread-safety: pure functions.
#ifndef WEFT_TRAINER_TOKENIZER_BYTE_CHARS_H_
#define WEFT_TRAINER_TOKENIZER_BYTE_CHARS_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace weft::trainer {

// The bytes in the order of their characters: so vocabularies number them.
std::array<uint8_t, 256> BytesInOrderOfChars();

std::string SpellBytes(std::string_view bytes);

// Nullopt if a character stands for no byte, or if it is no UTF-8.
std::optional<std::string> BytesOf(std::string_view spelled);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_TOKENIZER_BYTE_CHARS_H_
