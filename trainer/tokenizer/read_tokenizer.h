// Reads a vocabulary, whatever files it is in:
//
//   a folder with tokenizer.json, or vocab.json and merges.txt, or tokenizer.bin: the first of them
//   one of these files (vocab.json and merges.txt each mean both)
//
// Throws BadInput with one sentence that names the file and what is not supported. Thread-safety:
// pure but for reading files.
#ifndef WEFT_TRAINER_TOKENIZER_READ_TOKENIZER_H_
#define WEFT_TRAINER_TOKENIZER_READ_TOKENIZER_H_

#include <filesystem>
#include <memory>

#include "trainer/tokenizer/bpe_model.h"
#include "trainer/tokenizer/split.h"
#include "trainer/tokenizer/tokenizer.h"

namespace weft::trainer {

// How files that do not say it have text cut: vocab.json with merges.txt, and tokenizer.bin, are
// GPT-2's.
constexpr SplitPattern kSplitOfOldFiles = SplitPattern::kGpt2;

BpeModel ReadBpeModel(const std::filesystem::path& path,
                      SplitPattern split_of_old_files = kSplitOfOldFiles);

std::unique_ptr<Tokenizer> ReadTokenizer(const std::filesystem::path& path,
                                         SplitPattern split_of_old_files = kSplitOfOldFiles);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_TOKENIZER_READ_TOKENIZER_H_
