#include "trainer/tokenizer/bpe_trainer.h"

#include <algorithm>
#include <array>
#include <optional>

#include <fmt/core.h>

#include "trainer/failure.h"
#include "trainer/tokenizer/byte_chars.h"
#include "trainer/tokenizer/pair_counts.h"

namespace weft::trainer {
namespace {

constexpr size_t kBytes = 256;
constexpr size_t kTokensBetweenProgress = 64;

bool IsOneOf(const std::vector<std::string>& texts, const std::string& text) {
  return std::find(texts.begin(), texts.end(), text) != texts.end();
}

// The special tokens and the bytes.
BpeModel Alphabet(SplitPattern split, const BpeTraining& wanted) {
  if (wanted.vocabulary < kBytes + wanted.special.size())
    throw BadInput(
        fmt::format("a vocabulary of {} tokens has no room for {} bytes and {} special tokens",
                    wanted.vocabulary, kBytes, wanted.special.size()));
  BpeModel model;
  model.split = split;
  for (const std::string& text : wanted.special) {
    if (text.size() < 2 || BytesOf(text).value_or(text).size() < 2)
      throw BadInput(
          fmt::format("special token \"{}\" is a byte, as files of vocabularies write it; it needs "
                      "more of them",
                      text));
    model.added.push_back({Token(model.tokens.size()), text, true, false});
    model.tokens.push_back({text, false});
  }
  for (const uint8_t byte : BytesInOrderOfChars())
    model.tokens.push_back({std::string(1, char(byte)), true});
  model.end_of_text = FindEndOfText(model.added);
  CheckBpeModel(model, "the vocabulary to be trained");
  return model;
}

std::array<Token, kBytes> TokensOfBytes(const BpeModel& model) {
  std::array<Token, kBytes> tokens{};
  for (Token token = 0; token < model.tokens.size(); token++) {
    if (model.tokens[token].mergeable)
      tokens[static_cast<unsigned char>(model.tokens[token].bytes[0])] = token;
  }
  return tokens;
}

}  // namespace

void BpeTrainer::Add(std::string_view text) {
  for (size_t at = 0, end = 0; at < text.size(); at = end) {
    end = PieceEnd(split_, text, at);
    counts_[text.substr(at, end - at)]++;
  }
}

BpeModel BpeTrainer::Train(const BpeTraining& wanted) const {
  BpeModel model = Alphabet(split_, wanted);
  PairCounts pairs(counts_, TokensOfBytes(model));
  while (model.tokens.size() < wanted.vocabulary) {
    const std::optional<PairCounts::Pair> pair =
        pairs.TakeMostFrequent(std::max<uint64_t>(wanted.count_min, 1));
    if (!pair) break;
    const std::string text = model.tokens[pair->left].bytes + model.tokens[pair->right].bytes;
    // Text must not become what is a mark, nor what is written like one in files: the pair stays
    // two tokens.
    if (IsOneOf(wanted.special, text) || IsOneOf(wanted.special, SpellBytes(text))) continue;
    const Token product = Token(model.tokens.size());
    model.tokens.push_back({text, true});
    model.merges.push_back({pair->left, pair->right, product});
    pairs.MergeTaken(product);
    if (wanted.progress && model.tokens.size() % kTokensBetweenProgress == 0)
      wanted.progress(model.tokens.size(), wanted.vocabulary);
  }
  if (wanted.progress) wanted.progress(model.tokens.size(), wanted.vocabulary);
  return model;
}

}  // namespace weft::trainer
