// tokenizer.json, the tokenizers package's own file, as far as it is byte-level BPE: the model, how
// text is cut, and the added tokens.
//
// What would make other tokens than the package does, or other text, is refused by name. Ignored is
// what Encode() has no part in: post_processor, truncation, padding. Format:
// https://huggingface.co/docs/tokenizers.
//
// Throws BadInput, and the writer NotWritten, with one sentence. Thread-safety: pure but for the
// files.
#ifndef WEFT_TRAINER_TOKENIZER_TOKENIZER_JSON_H_
#define WEFT_TRAINER_TOKENIZER_TOKENIZER_JSON_H_

#include <filesystem>

#include "trainer/tokenizer/bpe_model.h"

namespace weft::trainer {

constexpr const char* kTokenizerJson = "tokenizer.json";

BpeModel ReadTokenizerJson(const std::filesystem::path& file);

// The package reads it and has the same tokens.
void WriteTokenizerJson(const BpeModel& model, const std::filesystem::path& file);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_TOKENIZER_TOKENIZER_JSON_H_
