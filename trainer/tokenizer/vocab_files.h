// The two files that GPT-2 came with: vocab.json, an object of tokens and their numbers, and
// merges.txt, a line for each merge.
//
// They say neither how text is cut into pieces, which the caller knows, nor which tokens are
// special: those are taken to be the ones that no merge makes.
//
// Throws BadInput, and the writer NotWritten, with one sentence. Thread-safety: pure but for the
// files.
#ifndef WEFT_TRAINER_TOKENIZER_VOCAB_FILES_H_
#define WEFT_TRAINER_TOKENIZER_VOCAB_FILES_H_

#include <filesystem>

#include "trainer/tokenizer/bpe_model.h"
#include "trainer/tokenizer/split.h"

namespace weft::trainer {

constexpr const char* kVocabJson = "vocab.json";
constexpr const char* kMergesTxt = "merges.txt";

BpeModel ReadVocabFiles(const std::filesystem::path& folder, SplitPattern split);

void WriteVocabFiles(const BpeModel& model, const std::filesystem::path& folder);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_TOKENIZER_VOCAB_FILES_H_
