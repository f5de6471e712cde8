// Files of tokens, opened: what a run trains on and validates with, and of which vocabulary they are.
//
//   const TokenData data = OpenTokenData(FindDataFiles(config.data));
//   CheckVocabulary(data, model.vocabulary);                 // before the model is made
//   data.train.Read(sampler.Offset(step, slot), window);
//
// Opening takes a header of each file, and memory for nothing but their names. Throws BadInput with
// one sentence. Thread-safety: as TokenText.
#ifndef WEFT_TRAINER_DATA_TOKEN_DATA_H_
#define WEFT_TRAINER_DATA_TOKEN_DATA_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "trainer/data/data_files.h"
#include "trainer/data/token_set.h"
#include "trainer/data/token_text.h"

namespace weft::trainer {

// Without files to validate with, the end of the text validates: a tenth of it, or so many tokens if
// that is less.
constexpr uint64_t kHeldOutTokensMax = 10'000'000;

struct TokenData {
  TokenText train, validation;
  size_t train_files = 0, validation_files = 0;  // 0: the end of the others validates
  std::vector<std::filesystem::path> left;       // .bin files that are none of tokens
  // What is known of the vocabulary: of the first file that has a TokenSet. All that have one are of
  // the same vocabulary.
  std::optional<TokenSet> set;
};

TokenData OpenTokenData(const DataFiles& files);

// That the tokens are those of a model with so many: by what is said of their vocabulary, and by a
// sample of them. Reading others throws from then on (TokenText::LimitTo).
void CheckVocabulary(TokenData& data, size_t model_vocabulary);

// The lines for the beginning of a run.
std::string DescribeTokenData(const TokenData& data);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_DATA_TOKEN_DATA_H_
