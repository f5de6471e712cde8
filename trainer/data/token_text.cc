#include "trainer/data/token_text.h"

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <string>
#include <utility>

#include <fmt/core.h>

#include "trainer/failure.h"
#include "trainer/random.h"

namespace weft::trainer {
namespace {

// A fault of a page maps up to so much around it (Linux's fault_around_bytes).
constexpr uint64_t kMappedPerFault = 64 << 10;
constexpr uint64_t kMappedMax = 32 << 20;

constexpr uint64_t kSamplePlaces = 64;
constexpr uint64_t kSampleTokens = 2048;  // of each place

class HeldTokens : public TokenRun {
 public:
  explicit HeldTokens(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const std::string& name() const override { return name_; }

  uint64_t size() const override { return tokens_.size(); }

  void Read(uint64_t offset, std::span<Token> tokens) const override {
    std::copy_n(tokens_.begin() + long(offset), tokens.size(), tokens.begin());
  }

  void WillRead(uint64_t, uint64_t) const override {}

  void Release() const override {}

 private:
  const std::string name_ = "the text";
  const std::vector<Token> tokens_;
};

[[noreturn]] void ThrowOutside(const TokenRun& run, uint64_t offset, Token token,
                               uint64_t vocabulary) {
  throw RunFailure(fmt::format(
      "{}: token {} at {} is outside of the model's vocabulary of {}; train a model with "
      "more tokens, or tokenize the text anew",
      run.name(), token, offset, vocabulary));
}

}  // namespace

struct TokenText::Runs {
  explicit Runs(std::vector<std::shared_ptr<const TokenRun>> all) : runs(std::move(all)) {
    for (const auto& run : runs) {
      begins.push_back(size);
      size += run->size();
    }
  }

  // Calls visit(run, offset in it, how many) for each run that these tokens lie in.
  template <typename Visit>
  void ForEach(uint64_t offset, uint64_t count, const Visit& visit) const {
    size_t i = size_t(std::ranges::upper_bound(begins, offset) - begins.begin());
    while (count > 0) {
      const TokenRun& run = *runs[i - 1];
      const uint64_t in_run = offset - begins[i - 1];
      const uint64_t now = std::min(count, run.size() - in_run);
      visit(run, in_run, now);
      offset += now;
      count -= now;
      i++;
    }
  }

  void NoteRead(uint64_t tokens) const {
    const uint64_t bytes = tokens * sizeof(Token) + 2 * kMappedPerFault;
    if (mapped.fetch_add(bytes, std::memory_order_relaxed) + bytes < kMappedMax) return;
    mapped.store(0, std::memory_order_relaxed);
    for (const auto& run : runs)
      run->Release();
  }

  std::vector<std::shared_ptr<const TokenRun>> runs;
  std::vector<uint64_t> begins;
  uint64_t size = 0;
  mutable std::atomic<uint64_t> mapped = 0;  // bytes, at most, since it was given back
};

TokenText::TokenText(std::vector<std::shared_ptr<const TokenRun>> runs)
    : runs_(std::make_shared<const Runs>(std::move(runs))), size_(runs_->size) {}

TokenText::TokenText(std::vector<Token> tokens)
    : TokenText({std::make_shared<const HeldTokens>(std::move(tokens))}) {}

void TokenText::Read(uint64_t offset, std::span<Token> tokens) const {
  if (offset > size_ || tokens.size() > size_ - offset)
    throw std::out_of_range("read beyond the end of the tokens");
  if (tokens.empty()) return;
  runs_->ForEach(
      first_ + offset, tokens.size(), [&](const TokenRun& run, uint64_t in_run, uint64_t count) {
        const std::span<Token> part = tokens.first(count);
        run.Read(in_run, part);
        const auto largest = std::ranges::max_element(part);
        if (*largest >= vocabulary_)
          ThrowOutside(run, in_run + uint64_t(largest - part.begin()), *largest, vocabulary_);
        tokens = tokens.subspan(count);
        runs_->NoteRead(count);
      });
}

void TokenText::WillRead(uint64_t offset, uint64_t count) const {
  if (offset >= size_) return;
  runs_->ForEach(
      first_ + offset, std::min(count, size_ - offset),
      [](const TokenRun& run, uint64_t in_run, uint64_t in_it) { run.WillRead(in_run, in_it); });
}

TokenText TokenText::Part(uint64_t first, uint64_t count) const {
  if (first > size_ || count > size_ - first)
    throw std::out_of_range("a part beyond the end of the tokens");
  TokenText part = *this;
  part.first_ += first;
  part.size_ = count;
  return part;
}

template <typename Take>
void TokenText::ForSample(const Take& take) const {
  TokenText all = *this;
  all.LimitTo(UINT64_MAX);
  std::vector<Token> tokens(std::min(size_, kSampleTokens));
  const uint64_t places = size_ <= kSamplePlaces * kSampleTokens
                              ? (size_ + kSampleTokens - 1) / kSampleTokens
                              : kSamplePlaces;
  const uint64_t last = size_ - tokens.size();  // the place that ends with the text
  for (uint64_t i = 0; i < places; i++) {
    const uint64_t offset = places == 1 ? 0 : uint64_t((unsigned __int128)(last)*i / (places - 1));
    all.Read(offset, tokens);
    take(offset, std::span<const Token>(tokens));
  }
}

Token TokenText::LargestOfSample() const {
  Token largest = 0;
  ForSample([&](uint64_t, std::span<const Token> tokens) {
    if (!tokens.empty()) largest = std::max(largest, *std::ranges::max_element(tokens));
  });
  return largest;
}

uint64_t TokenText::DigestOfSample() const {
  uint64_t digest = Mix(size_);
  ForSample([&](uint64_t offset, std::span<const Token> tokens) {
    digest = Mix(digest ^ offset);
    for (const Token token : tokens)
      digest = Mix(digest ^ token);
  });
  return digest;
}

}  // namespace weft::trainer
