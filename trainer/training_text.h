// What a Trainer reads: two sequences of tokens.
//
//   const TrainingText text = ByteTokens(corpus);        // of text, whose bytes are the tokens
//   Trainer trainer(config, text, group);
//
// Thread-safety: as TokenText.
#ifndef WEFT_TRAINER_TRAINING_TEXT_H_
#define WEFT_TRAINER_TRAINING_TEXT_H_

#include "trainer/corpus.h"
#include "trainer/data/token_text.h"

namespace weft::trainer {

struct TrainingText {
  TokenText train, validation;
};

// The bytes of both sides, which the corpus keeps: it must outlive them, and stay where it is.
TrainingText ByteTokens(const Corpus& corpus);

// Letters in no order, for steps that are timed: the arithmetic does not depend on them.
TrainingText AnyLetters(size_t train, size_t validation);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_TRAINING_TEXT_H_
