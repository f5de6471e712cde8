#include "trainer/token_choice.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "trainer/failure.h"
#include "trainer/random.h"

namespace weft::trainer {
namespace {

constexpr uint64_t kSampleKey = 0x73616d706c65u;

// The likeliest tokens, in their order.
std::vector<Token> Likeliest(std::span<const float> logits, size_t count) {
  std::vector<Token> tokens;
  for (size_t i = 0; i < logits.size(); i++) {
    if (!std::isnan(logits[i])) tokens.push_back(Token(i));
  }
  if (tokens.empty()) throw RunFailure("the model's logits are no numbers");
  const auto end = tokens.begin() + long(std::min(count, tokens.size()));
  std::partial_sort(tokens.begin(), end, tokens.end(), [&](Token a, Token b) {
    return logits[a] > logits[b] || (logits[a] == logits[b] && a < b);
  });
  tokens.erase(end, tokens.end());
  return tokens;
}

}  // namespace

Token ChooseToken(std::span<const float> logits, const TokenChoice& choice, uint64_t index) {
  const std::vector<Token> tokens = Likeliest(logits, choice.temperature > 0 ? choice.top : 1);
  std::vector<double> weights;
  for (const Token token : tokens) {
    const double below = double(logits[token]) - double(logits[tokens[0]]);
    weights.push_back(below == 0 ? 1 : std::exp(below / choice.temperature));
  }
  double left = UniformAt(Mix(choice.seed ^ kSampleKey), index) *
                std::accumulate(weights.begin(), weights.end(), 0.0);
  for (size_t i = 0; i < tokens.size(); i++) {
    left -= weights[i];
    if (left < 0) return tokens[i];
  }
  return tokens[0];
}

}  // namespace weft::trainer
