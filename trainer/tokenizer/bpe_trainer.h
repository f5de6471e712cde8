// Makes a vocabulary for a text: counts its pieces, then merges the most frequent pair of
// neighbours until there are tokens enough.
//
//   BpeTrainer trainer(SplitPattern::kGpt2);
//   for (const TextFile& file : files) trainer.Add(file.text);
//   BpeModel model = trainer.Train({.vocabulary = 8192, .special = {"<|endoftext|>"}});
//
// Of pairs that are equally frequent the one of the lowest tokens is merged first, so a text has
// one vocabulary, whatever the order in which it is added, and the tokenizers package makes the
// same one of it.
//
// Memory: the different pieces of the text and about 40 bytes for each of their bytes; not the
// text. Thread-safety: one thread.
#ifndef WEFT_TRAINER_TOKENIZER_BPE_TRAINER_H_
#define WEFT_TRAINER_TOKENIZER_BPE_TRAINER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/tokenizer/bpe_model.h"
#include "trainer/tokenizer/split.h"
#include "trainer/tokenizer/text_map.h"

namespace weft::trainer {

// How often each piece is there.
using PieceCounts = TextMap<std::string, uint64_t>;

struct BpeTraining {
  size_t vocabulary =
      8192;  // tokens: the special ones, 256 bytes, merges. Fewer if the text has no more pairs
  std::vector<std::string> special;  // numbered from 0 on
  uint64_t count_min = 2;            // a pair that is rarer is not merged
  // Called now and then with how many tokens there are, and how many are wanted.
  std::function<void(size_t done, size_t wanted)> progress;
};

class BpeTrainer {
 public:
  explicit BpeTrainer(SplitPattern split) : split_(split) {}

  // A text is cut at its end.
  void Add(std::string_view text);

  // BadInput if the special tokens and the bytes alone are more than wanted, or two special tokens
  // are the same.
  BpeModel Train(const BpeTraining& wanted) const;

 private:
  SplitPattern split_;
  PieceCounts counts_;
};

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_TOKENIZER_BPE_TRAINER_H_
