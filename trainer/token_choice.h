// Which token continues a text, given what a model says of it.
//
//   const TokenChoice choice{.temperature = 0.8, .top = 40, .seed = 1};
//   Token token = ChooseToken(logits, choice, i);      // of the i-th token that is chosen
//
// A function of its arguments: nothing is drawn from a state. Thread-safety: values.
#ifndef WEFT_TRAINER_TOKEN_CHOICE_H_
#define WEFT_TRAINER_TOKEN_CHOICE_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "trainer/tokenizer/token.h"

namespace weft::trainer {

struct TokenChoice {
  double temperature = 1;  // 0: the likeliest
  size_t top = SIZE_MAX;   // among so many of the likeliest
  uint64_t seed = 1;
};

// Of tokens that are equally likely the first. Throws RunFailure if no logit is a number.
Token ChooseToken(std::span<const float> logits, const TokenChoice& choice, uint64_t index);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_TOKEN_CHOICE_H_
