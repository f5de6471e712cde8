#include "trainer/validation_text.h"

#include <algorithm>
#include <string>

#include "trainer/order3.h"
#include "trainer/train.h"

namespace weft::trainer {

ValidationText::ValidationText(const RunData& data, const TrainConfig& config)
    : data_(data),
      seq_(config.model.seq),
      some_(SpreadWindows(data.text().validation.size(), seq_, config.eval_windows)),
      many_(SpreadWindows(data.text().validation.size(), seq_, config.final_windows)) {}

size_t ValidationText::judged_tokens() const {
  return many_.size() * (seq_ - ContextTokens(seq_));
}

// The first context from the middle of the text on that is mostly not white space: from a lone newline a model of source code
// likes to indent for ever.
std::vector<Token> ValidationText::Prompt() const {
  std::vector<Token> prompt(ContextTokens(seq_));
  for (size_t i = many_.size() / 2; i < many_.size(); i++) {
    data_.text().validation.Read(many_[i], prompt);
    const std::string text = data_.Decode(prompt);
    const auto blank = std::count_if(text.begin(), text.end(),
                                     [](char c) { return c == ' ' || c == '\n' || c == '\t'; });
    if (size_t(blank) * 4 <= text.size()) break;
  }
  return prompt;
}

double ValidationText::Order3Loss(size_t bytes_max,
                                  const std::function<void(double)>& progress) const {
  const Corpus& corpus = *data_.corpus();
  const Order3Model model(SampleText(corpus.train, bytes_max), progress);
  double witten_bell = 0, kneser_ney = 0;
  for (const size_t offset : many_) {
    for (size_t i = offset + ContextTokens(seq_) + 1; i <= offset + seq_; i++) {
      witten_bell += model.Loss(corpus.validation, i, Smoothing::kWittenBell);
      kneser_ney += model.Loss(corpus.validation, i, Smoothing::kKneserNey);
    }
  }
  return std::min(witten_bell, kneser_ney) / double(judged_tokens());
}

}  // namespace weft::trainer
