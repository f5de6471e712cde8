// tokenizer.bin of llm.c: 256 words of 32 bits, of which the first four are 20240328, the version
// (1 or 2), the number of tokens and the one that ends a text; then each token, as a byte that says
// how long it is and its bytes.
//
// llm.c can only decode with it, since it has no merges. They follow from the tokens: a vocabulary
// of BPE numbers its merges in the order in which they were made, so a token's merge is of the two
// that the merges before it leave of its bytes. If these are not two, the file is refused. How text
// is cut the file does not say; the caller knows.
//
// Throws BadInput with one sentence. Thread-safety: pure but for reading the file.
#ifndef WEFT_TRAINER_TOKENIZER_TOKENIZER_BIN_H_
#define WEFT_TRAINER_TOKENIZER_TOKENIZER_BIN_H_

#include <cstdint>
#include <filesystem>

#include "trainer/tokenizer/bpe_model.h"
#include "trainer/tokenizer/split.h"

namespace weft::trainer {

constexpr const char* kTokenizerBin = "tokenizer.bin";
constexpr uint32_t kTokenizerBinMagic = 20240328;

BpeModel ReadTokenizerBin(const std::filesystem::path& file, SplitPattern split);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_TOKENIZER_TOKENIZER_BIN_H_
