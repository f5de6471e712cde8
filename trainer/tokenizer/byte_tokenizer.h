// Each byte is a token: a vocabulary of 256, and nothing to read or train.
#ifndef WEFT_TRAINER_TOKENIZER_BYTE_TOKENIZER_H_
#define WEFT_TRAINER_TOKENIZER_BYTE_TOKENIZER_H_

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/tokenizer/tokenizer.h"

namespace weft::trainer {

class ByteTokenizer : public Tokenizer {
 public:
  size_t vocabulary() const override { return 256; }

  std::optional<Token> end_of_text() const override { return std::nullopt; }

  void Encode(std::string_view text, std::vector<Token>* tokens, SpecialText special) override;

  size_t NextCut(std::string_view, size_t from) const override { return from; }

  size_t cut_lookahead() const override { return 0; }

  void Decode(std::span<const Token> tokens, std::string* text) const override;

  std::unique_ptr<Tokenizer> Clone() const override { return std::make_unique<ByteTokenizer>(); }
};

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_TOKENIZER_BYTE_TOKENIZER_H_
