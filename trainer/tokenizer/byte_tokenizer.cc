#include "trainer/tokenizer/byte_tokenizer.h"

#include <fmt/core.h>

#include "trainer/failure.h"

namespace weft::trainer {

void ByteTokenizer::Encode(std::string_view text, std::vector<Token>* tokens, SpecialText) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
  tokens->insert(tokens->end(), bytes, bytes + text.size());
}

void ByteTokenizer::Decode(std::span<const Token> tokens, std::string* text) const {
  text->reserve(text->size() + tokens.size());
  for (const Token token : tokens) {
    if (token > 255)
      throw BadInput(
          fmt::format("token {} is none of the byte tokenizer's, which are 0 to 255", token));
    text->push_back(char(token));
  }
}

}  // namespace weft::trainer
