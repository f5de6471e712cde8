#include "trainer/validation_text.h"

#include <algorithm>

#include "trainer/order3.h"
#include "trainer/train.h"

namespace weft::trainer {

ValidationText::ValidationText(const Corpus& corpus, const TrainConfig& config)
    : corpus_(corpus),
      seq_(config.model.seq),
      some_(SpreadWindows(corpus.validation.size(), seq_, config.eval_windows)),
      many_(SpreadWindows(corpus.validation.size(), seq_, config.final_windows)) {}

size_t ValidationText::judged_bytes() const {
  return many_.size() * (seq_ - ContextBytes(seq_));
}

// The first context from the middle of the text on that is mostly not white space: from a lone newline a model of source code
// likes to indent for ever.
std::string ValidationText::Prompt() const {
  std::string prompt;
  for (size_t i = many_.size() / 2; i < many_.size(); i++) {
    prompt = corpus_.validation.substr(many_[i], ContextBytes(seq_));
    const auto blank = std::count_if(prompt.begin(), prompt.end(),
                                     [](char c) { return c == ' ' || c == '\n' || c == '\t'; });
    if (size_t(blank) * 4 <= prompt.size()) break;
  }
  return prompt;
}

double ValidationText::Order3Loss(const std::function<void(double)>& progress) const {
  const Order3Model model(corpus_.train, progress);
  double witten_bell = 0, kneser_ney = 0;
  for (const size_t offset : many_) {
    for (size_t i = offset + ContextBytes(seq_) + 1; i <= offset + seq_; i++) {
      witten_bell += model.Loss(corpus_.validation, i, Smoothing::kWittenBell);
      kneser_ney += model.Loss(corpus_.validation, i, Smoothing::kKneserNey);
    }
  }
  return std::min(witten_bell, kneser_ney) / double(judged_bytes());
}

}  // namespace weft::trainer
