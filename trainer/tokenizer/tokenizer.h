// Bytes to tokens and back.
//
//   std::unique_ptr<Tokenizer> tokenizer = ReadTokenizer("gpt2/");   // or of a BpeTrainer
//   std::vector<Token> tokens;
//   tokenizer->Encode("any bytes", &tokens, SpecialText::kAsText);
//   std::string text;
//   tokenizer->Decode(tokens, &text);                               // exactly the bytes again
//
// A long text is encoded in slices, so that not all of its tokens are in memory:
//
//   for (size_t at = 0, end; at < text.size(); at = end) {
//     end = tokenizer->NextCut(text, std::min(text.size(), at + (1 << 20)));
//     tokenizer->Encode(text.substr(at, end - at), &tokens, SpecialText::kAsText);
//     ... write tokens, clear them ...
//   }
//
// Thread-safety: Encode() keeps what it has found out about frequent pieces, so a Tokenizer encodes
// for one thread at a time; another thread takes a Clone(), which shares the vocabulary. Everything
// else is const and may be called by all.
#ifndef WEFT_TRAINER_TOKENIZER_TOKENIZER_H_
#define WEFT_TRAINER_TOKENIZER_TOKENIZER_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/tokenizer/token.h"

namespace weft::trainer {

// What Encode() makes of text that reads like a special token, such as <|endoftext|>. Text of
// others is kAsText: it must not be able to end a document.
enum class SpecialText { kAsText, kAsTokens };

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Tokens are below it.
  virtual size_t vocabulary() const = 0;

  // The token between documents, if the vocabulary has one.
  virtual std::optional<Token> end_of_text() const = 0;

  // Appends the tokens of any bytes. Adds none at the ends.
  virtual void Encode(std::string_view text, std::vector<Token>* tokens, SpecialText special) = 0;

  // The first place at or after `from` where a cut changes no token: Encode() of the two parts
  // gives what it gives for the whole. text.size() if there is none before.
  virtual size_t NextCut(std::string_view text, size_t from) const = 0;

  // How many bytes behind a place NextCut() looks at, to know that it is a cut: of a text whose end
  // is not there yet, those cuts are known that have so many bytes behind them.
  virtual size_t cut_lookahead() const = 0;

  // Appends the bytes of tokens, of special ones too. Throws BadInput for one that is outside of
  // the vocabulary.
  virtual void Decode(std::span<const Token> tokens, std::string* text) const = 0;

  // For another thread.
  virtual std::unique_ptr<Tokenizer> Clone() const = 0;
};

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_TOKENIZER_TOKENIZER_H_
