// Byte-level BPE: text is cut into pieces by a pattern, and the bytes of each piece are merged in
// the order of the vocabulary's merges.
//
//   BpeTokenizer tokenizer(ReadTokenizerJson("tokenizer.json"));
//
// The tokens are those that the tokenizers package has for the same vocabulary (README.md says how
// that is known), and Decode() gives back any bytes, UTF-8 or not. Thread-safety: tokenizer.h has
// it; clones share the vocabulary, which is constant.
#ifndef WEFT_TRAINER_TOKENIZER_BPE_TOKENIZER_H_
#define WEFT_TRAINER_TOKENIZER_BPE_TOKENIZER_H_

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/tokenizer/bpe_model.h"
#include "trainer/tokenizer/piece_cache.h"
#include "trainer/tokenizer/piece_merger.h"
#include "trainer/tokenizer/tokenizer.h"

namespace weft::trainer {

class BpeTokenizer : public Tokenizer {
 public:
  // `source` is what the sentence about a model that cannot be used begins with. Throws BadInput.
  explicit BpeTokenizer(BpeModel model, const std::string& source = "the vocabulary");

  const BpeModel& model() const;

  size_t vocabulary() const override;

  std::optional<Token> end_of_text() const override;

  void Encode(std::string_view text, std::vector<Token>* tokens, SpecialText special) override;

  size_t NextCut(std::string_view text, size_t from) const override;

  size_t cut_lookahead() const override;

  void Decode(std::span<const Token> tokens, std::string* text) const override;

  std::unique_ptr<Tokenizer> Clone() const override;

 private:
  struct Vocabulary;  // the model and what is looked up in it

  explicit BpeTokenizer(std::shared_ptr<const Vocabulary> vocabulary);

  void EncodePiece(std::string_view piece, std::vector<Token>* tokens);

  std::shared_ptr<const Vocabulary> vocabulary_;
  PieceCache cache_;
  PieceMerger merger_;
};

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_TOKENIZER_BPE_TOKENIZER_H_
