#include "trainer/text_generator.h"

#include <algorithm>

namespace weft::trainer {

TextGenerator::TextGenerator(const ModelConfig& config, DataParallel& parallel,
                             std::span<const Token> prompt, size_t threads, size_t below)
    : config_(config),
      parallel_(parallel),
      below_(std::min(below, config.vocabulary)),
      decoder_(config, parallel, threads) {
  const std::span<const Token> seen = prompt.last(std::min(prompt.size(), config.seq));
  window_.assign(seen.begin(), seen.end());
}

Token TextGenerator::Next(const TokenChoice& choice) {
  if (window_.size() > config_.seq) {
    window_.erase(window_.begin(), window_.end() - long((config_.seq + 1) / 2));
    decoder_.Forget();
  }
  const float* logits = nullptr;
  while (decoder_.length() < window_.size()) {
    const std::span<const Token> left = std::span(window_).subspan(decoder_.length());
    parallel_.BeginEvaluation(1);
    parallel_.BeginMicrobatch(0, true);
    logits = decoder_.Append(left.first(std::min(left.size(), kDecoderChunk)));
    parallel_.EndMicrobatch();
    parallel_.Finish();
    parallel_.EndStep();
  }
  window_.push_back(ChooseToken({logits, below_}, choice, chosen_++));
  return window_.back();
}

}  // namespace weft::trainer
