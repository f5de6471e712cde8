#include "trainer/training_text.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainer/data/token_run.h"

namespace weft::trainer {
namespace {

class ByteRun : public TokenRun {
 public:
  explicit ByteRun(std::string_view bytes) : bytes_(bytes) {}

  const std::string& name() const override { return name_; }

  uint64_t size() const override { return bytes_.size(); }

  void Read(uint64_t offset, std::span<Token> tokens) const override {
    std::ranges::transform(bytes_.substr(offset, tokens.size()), tokens.begin(),
                           [](char byte) { return Token{uint8_t(byte)}; });
  }

  void WillRead(uint64_t, uint64_t) const override {}

  void Release() const override {}

 private:
  const std::string name_ = "the text of --data";
  const std::string_view bytes_;
};

TokenText TextOf(std::string_view bytes) {
  if (bytes.empty()) return TokenText();
  return TokenText({std::make_shared<const ByteRun>(bytes)});
}

}  // namespace

TrainingText ByteTokens(const Corpus& corpus) {
  return {TextOf(corpus.train), TextOf(corpus.validation)};
}

TrainingText AnyLetters(size_t train, size_t validation) {
  std::vector<Token> letters(train);
  uint32_t state = 1;
  for (Token& letter : letters) {
    state = state * 1664525u + 1013904223u;
    letter = Token{'a'} + (state >> 24) % 26;
  }
  const TokenText text(std::move(letters));
  return {text, text.Part(0, validation)};
}

}  // namespace weft::trainer
