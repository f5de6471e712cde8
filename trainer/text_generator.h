// Continues a text with a model whose parameters a shard context has. Every rank computes the
// logits, as it takes part in gathering where parameters are sharded, and rank 0 alone chooses the
// tokens: logits of different CPUs differ in their last bits, and ranks whose texts have parted
// would wait for each other in vain.
//
//   TextGenerator generator(config.model, parallel, prompt, threads);
//   while (wanted) text.push_back(generator.Next(choice));
//
// A model has a window of `seq` tokens, and its positions are learned. When the window is full the
// text moves against the table of positions, and no key that is kept holds any longer. The window
// then begins anew with the last half of itself, which is computed at once: a token has between
// half a window and a whole one before it, and costs little more than the read of the weights.
// Sliding by one token at a time would give each a whole window, for a forward of the whole window
// each.
//
// Collective over the ranks of the context's group. Thread-safety: an object belongs to one thread.
#ifndef WEFT_TRAINER_TEXT_GENERATOR_H_
#define WEFT_TRAINER_TEXT_GENERATOR_H_

#include <cstddef>
#include <span>
#include <vector>

#include "trainer/decoder.h"
#include "trainer/model_units.h"
#include "trainer/parallel.h"
#include "trainer/token_choice.h"
#include "trainer/tokenizer/token.h"

namespace weft::trainer {

class TextGenerator {
 public:
  // `prompt`, `below` and what Next is passed: rank 0's count. `prompt`: of a token at least; the
  // last `seq` of them count. `below`: tokens from this on are never chosen.
  TextGenerator(const ModelConfig& config, DataParallel& parallel, std::span<const Token> prompt,
                size_t threads, size_t below = SIZE_MAX);

  // The same on all ranks.
  Token Next(const TokenChoice& choice);

 private:
  const ModelConfig config_;
  DataParallel& parallel_;
  const size_t below_;
  Decoder decoder_;
  std::vector<Token> window_;  // the decoder has its first tokens
  size_t chosen_ = 0;
};

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_TEXT_GENERATOR_H_
