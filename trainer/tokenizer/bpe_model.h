// What a byte-level BPE vocabulary is, wherever it comes from: files, or a BpeTrainer.
//
//   BpeModel model = ReadTokenizerJson("tokenizer.json");
//   BpeTokenizer tokenizer(std::move(model));
//
// A plain value. CheckBpeModel() says what holds of one that may be used.
#ifndef WEFT_TRAINER_TOKENIZER_BPE_MODEL_H_
#define WEFT_TRAINER_TOKENIZER_BPE_MODEL_H_

#include <optional>
#include <string>
#include <vector>

#include "trainer/tokenizer/split.h"
#include "trainer/tokenizer/token.h"

namespace weft::trainer {

// Two tokens that become one, where they stand side by side.
struct Merge {
  Token left, right, product;
};

// A token that is found in text as a whole, before the text is cut into pieces.
struct AddedToken {
  Token id = 0;
  std::string text;
  // No text but a mark, such as the end of a document: found only where Encode() is asked for it.
  bool special = false;
  bool normalized = false;  // looked for in what those that are not normalized leave
};

struct BpeToken {
  std::string bytes;
  // Made of text by merges. False for what only an added token can be, or nothing.
  bool mergeable = true;
};

struct BpeModel {
  SplitPattern split = SplitPattern::kGpt2;
  std::vector<BpeToken> tokens;  // by their numbers
  std::vector<Merge> merges;     // the first one is done first
  std::vector<AddedToken> added;
  // A piece that is a token becomes that token, whatever merges make of it (`ignore_merges`).
  bool whole_pieces_first = false;
  std::optional<Token> end_of_text;
};

// Throws BadInput with one sentence, which begins with `source`, unless
//   each byte alone is a mergeable token, and no two mergeable tokens are the same bytes;
//   each merge is of mergeable tokens into a mergeable one that has their bytes;
//   no pair is merged twice;
//   each token has a byte; each added token is a token with its text, no two with the same.
void CheckBpeModel(const BpeModel& model, const std::string& source);

// A token as sentences name it: `17 ("the")`.
std::string Named(const BpeModel& model, Token token);

// The special token that ends a document, by the names that vocabularies give it.
std::optional<Token> FindEndOfText(const std::vector<AddedToken>& added);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_TOKENIZER_BPE_MODEL_H_
