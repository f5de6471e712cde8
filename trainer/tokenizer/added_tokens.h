// Finds the added tokens in text: the leftmost, of several that begin there the longest.
//
//   AddedTokens added(model.added);
//   added.Cut(text, special, [&](std::string_view part, std::optional<Token> token) { ... });
//
// In two rounds, as the tokenizers package does: what is not normalized first, the others in what
// is left. There is nothing to normalize here, but the round decides which of two overlapping
// tokens is found. A special token that is to stay text hides what overlaps it all the same.
//
// Thread-safety: constant after construction.
#ifndef WEFT_TRAINER_TOKENIZER_ADDED_TOKENS_H_
#define WEFT_TRAINER_TOKENIZER_ADDED_TOKENS_H_

#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <absl/functional/function_ref.h>

#include "trainer/tokenizer/bpe_model.h"
#include "trainer/tokenizer/text_map.h"
#include "trainer/tokenizer/tokenizer.h"

namespace weft::trainer {

class AddedTokens {
 public:
  // Called with each part of a text in turn: a token's, or what lies between tokens. No part is
  // empty.
  using PartOfText = absl::FunctionRef<void(std::string_view part, std::optional<Token> token)>;

  explicit AddedTokens(const std::vector<AddedToken>& tokens);

  void Cut(std::string_view text, SpecialText special, PartOfText part) const;

  // Whether the text of a token, special or not, begins before `at` and ends behind it.
  bool AnyAcross(std::string_view text, size_t at) const;

  // Of the longest text of a token; 0: there are none.
  size_t bytes_max() const { return bytes_max_; }

 private:
  struct Found {
    Token id;
    bool special;
  };

  // Tokens of one round.
  struct Round {
    TextMap<std::string_view, Found> by_text;
    std::array<std::vector<size_t>, 256>
        lengths;  // of texts by their first byte, the longest first

    // Of the token that begins at `at`, and its text; null if there is none.
    const Found* At(std::string_view text, size_t at, std::string_view* found) const;
  };

  void CutBy(size_t round, std::string_view text, SpecialText special, PartOfText part) const;

  std::vector<std::string> texts_;  // what the rounds' keys point into
  std::array<Round, 2> rounds_;
  size_t bytes_max_ = 0;  // of a token
};

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_TOKENIZER_ADDED_TOKENS_H_
