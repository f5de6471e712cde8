#include "trainer/text_generator.h"

#include <algorithm>
#include <cstdint>

namespace weft::trainer {

TextGenerator::TextGenerator(const ModelConfig& config, DataParallel& parallel,
                             std::span<const Token> prompt, size_t threads, size_t below)
    : config_(config),
      parallel_(parallel),
      below_(std::min(below, config.vocabulary)),
      decoder_(config, parallel, threads) {
  const std::span<const Token> seen = prompt.last(std::min(prompt.size(), config.seq));
  window_.assign(seen.begin(), seen.end());
  uint64_t count = window_.size();
  parallel_.HearFirst(&count, sizeof count);
  window_.resize(count);
  parallel_.HearFirst(window_.data(), count * sizeof(Token));
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
  Token token = parallel_.rank() == 0 ? ChooseToken({logits, below_}, choice, chosen_++) : 0;
  parallel_.HearFirst(&token, sizeof token);
  window_.push_back(token);
  return token;
}

}  // namespace weft::trainer
