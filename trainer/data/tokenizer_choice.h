// The tokenizer that --tokenizer of tokenize names: bytes, a vocabulary's files, or one that is
// trained on the text.
//
//   TokenizerChoice choice = ChooseTokenizer("bpe:8192", SplitPattern::kGpt2, documents, progress);
//   choice.tokenizer->Encode(...);
//
// Throws BadInput with one sentence. Thread-safety: pure but for reading files.
#ifndef WEFT_TRAINER_DATA_TOKENIZER_CHOICE_H_
#define WEFT_TRAINER_DATA_TOKENIZER_CHOICE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "trainer/data/documents.h"
#include "trainer/data/text_slices.h"
#include "trainer/tokenizer/bpe_model.h"
#include "trainer/tokenizer/split.h"
#include "trainer/tokenizer/tokenizer.h"

namespace weft::trainer {

// Text that a vocabulary is trained on, at most; of more, slices from all of it.
constexpr uint64_t kBpeTextBytesMax = uint64_t{512} << 20;
constexpr size_t kSliceBytes = size_t{1} << 20;  // that are read at once

struct TokenizerChoice {
  std::unique_ptr<Tokenizer> tokenizer;
  std::optional<BpeModel> model;  // what its file is to have; none: bytes
  uint64_t trained_bytes = 0;     // of text; 0: it was not trained here
};

// What is being done, and which part of it is. May throw, which ends it.
using WorkShare = std::function<void(const std::string& what, double share)>;

// A vocabulary is trained on what does not validate.
TokenizerChoice ChooseTokenizer(const std::string& name, SplitPattern split,
                                const Documents& documents, const WorkShare& progress);

// Where texts may be cut for it; it is borrowed.
TextCuts CutsOf(const Tokenizer& tokenizer);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_DATA_TOKENIZER_CHOICE_H_
