#include "trainer/tokenizer/bpe_trainer.h"

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/trainer/tokenizer/random_bpe.h"
#include "trainer/failure.h"

namespace weft::trainer::bpe_trainer_test {
namespace {

using TokenPair = std::pair<Token, Token>;

// Counts all pairs anew for each merge.
std::vector<Merge> SlowTrain(const std::vector<std::string>& texts, size_t vocabulary,
                             uint64_t count_min) {
  BpeModel model = BytesAlone();
  std::vector<std::vector<Token>> pieces;
  for (const std::string& text : texts) {
    for (size_t at = 0, end = 0; at < text.size(); at = end) {
      end = PieceEnd(SplitPattern::kGpt2, text, at);
      auto& piece = pieces.emplace_back();
      for (const char byte : text.substr(at, end - at))
        piece.push_back(OfByte(model, byte));
    }
  }
  while (model.tokens.size() < vocabulary) {
    std::map<TokenPair, uint64_t> counts;
    for (const auto& piece : pieces) {
      for (size_t i = 0; i + 1 < piece.size(); i++)
        counts[{piece[i], piece[i + 1]}]++;
    }
    // The first of those with the highest count is the one of the lowest tokens.
    const auto best = std::max_element(counts.begin(), counts.end(),
                                       [](auto& a, auto& b) { return a.second < b.second; });
    if (best == counts.end() || best->second < count_min) break;
    const Token product = Token(model.tokens.size());
    const auto [left, right] = best->first;
    model.tokens.push_back({model.tokens[left].bytes + model.tokens[right].bytes, true});
    model.merges.push_back({left, right, product});
    for (auto& piece : pieces) {
      for (size_t i = 0; i + 1 < piece.size(); i++) {
        if (piece[i] != left || piece[i + 1] != right) continue;
        piece[i] = product;
        piece.erase(piece.begin() + std::ptrdiff_t(i) + 1);
      }
    }
  }
  return model.merges;
}

bool Same(const std::vector<Merge>& a, const std::vector<Merge>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Merge& x, const Merge& y) {
    return x.left == y.left && x.right == y.right && x.product == y.product;
  });
}

TEST(BpeTrainer, MergesAsTheSlowReferenceDoes) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 60; round++) {
    std::vector<std::string> texts(1 + random() % 3);
    const size_t letters = 1 + random() % 4;
    for (std::string& text : texts) {
      for (size_t length = random() % 200; length > 0; length--)
        text += random() % 6 == 0 ? ' ' : char('a' + random() % letters);
    }
    BpeTraining wanted;
    wanted.vocabulary = 256 + random() % 60;
    wanted.count_min = 1 + random() % 3;
    BpeTrainer trainer(SplitPattern::kGpt2), reversed(SplitPattern::kGpt2);
    for (const std::string& text : texts)
      trainer.Add(text);
    for (auto text = texts.rbegin(); text != texts.rend(); ++text)
      reversed.Add(*text);
    const BpeModel model = trainer.Train(wanted);
    ASSERT_TRUE(Same(model.merges, SlowTrain(texts, wanted.vocabulary, wanted.count_min)))
        << testing::PrintToString(texts);
    ASSERT_TRUE(Same(model.merges, reversed.Train(wanted).merges));
    CheckBpeModel(model, "what was trained");
  }
}

// A merge that went through the whole piece each time would take hours.
TEST(BpeTrainer, OnePieceMayBeMegabytes) {
  std::mt19937_64 random(3);
  std::string text;
  for (size_t i = 0; i < 1 << 19; i++)
    text += char('a' + random() % 26);
  BpeTrainer trainer(SplitPattern::kGpt2);
  trainer.Add(text);
  EXPECT_EQ(trainer.Train({.vocabulary = 2000, .special = {}, .progress = {}}).tokens.size(),
            2000u);
}

TEST(BpeTrainer, MakesNoSpecialTokenOfText) {
  BpeTrainer trainer(SplitPattern::kGpt2);
  for (int i = 0; i < 10; i++)
    trainer.Add("abab ");
  size_t done = 0;
  BpeTraining wanted{.vocabulary = 300, .special = {"<|endoftext|>", "ab"}};
  wanted.progress = [&](size_t tokens, size_t of) {
    done = tokens;
    EXPECT_EQ(of, 300u);
  };
  const BpeModel model = trainer.Train(wanted);
  EXPECT_EQ(done, model.tokens.size());
  EXPECT_EQ(model.end_of_text, 0u);
  EXPECT_EQ(model.tokens[1].bytes, "ab");
  for (const Merge& merge : model.merges)
    EXPECT_NE(model.tokens[merge.product].bytes, "ab");
}

TEST(BpeTrainer, RefusesWhatHasNoRoom) {
  const BpeTrainer trainer(SplitPattern::kGpt2);
  EXPECT_THROW(trainer.Train({.vocabulary = 255, .special = {}, .progress = {}}), BadInput);
  EXPECT_THROW(trainer.Train({.vocabulary = 256, .special = {"<s>"}, .progress = {}}), BadInput);
  EXPECT_THROW(trainer.Train({.vocabulary = 300, .special = {"<s>", "<s>"}, .progress = {}}),
               BadInput);
  EXPECT_THROW(trainer.Train({.vocabulary = 300, .special = {"a"}, .progress = {}}), BadInput);
  EXPECT_EQ(trainer.Train({.vocabulary = 300, .special = {"<s>"}, .progress = {}}).tokens.size(),
            257u)
      << "no text, no merges";
}

}  // namespace
}  // namespace weft::trainer::bpe_trainer_test
