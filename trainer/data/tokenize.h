// weft_train tokenize: text to files of tokens.
//
//   TokenizeConfig config{.tokenizer = "bpe:8192", .out = "data/notes", .files = {"notes"}};
//   const int code = RunTokenize(config);
//
// Writes FOLDER/NAME_train_000000.bin and so on, NAME_val_000000.bin if a part is to validate,
// tokenizer.json if the tokens are no bytes, and at last NAME.json (token_set.h). Nobody sees any of
// it before all is written, and what fails or is asked to end (stop_signals.h) leaves nothing.
//
// The files are documents, in the order of their paths; each begins with the end-of-text token, if
// the vocabulary has one, as llm.c's do. Text that reads like a special token stays text. Memory: a
// slice of text and its tokens, the vocabulary, and while one is trained the different words of the
// text.
//
// Throws BadInput or NotWritten with one sentence. Thread-safety: one thread.
#ifndef WEFT_TRAINER_DATA_TOKENIZE_H_
#define WEFT_TRAINER_DATA_TOKENIZE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/tokenizer/split.h"

namespace weft::trainer {

struct TokenizeConfig {
  // kByteTokenizerName; "bpe:N", N tokens that are trained on this text; or what ReadTokenizer takes.
  std::string tokenizer;
  SplitPattern split = SplitPattern::kGpt2;  // where a vocabulary is trained, or does not say it
  std::string out;                           // FOLDER/NAME
  uint64_t shard_tokens = 100'000'000;
  double validation_part = 0.1;
  std::vector<std::string> files;  // and folders
};

// The exit code.
int RunTokenize(const TokenizeConfig& config);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_DATA_TOKENIZE_H_
