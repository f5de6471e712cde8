#include "trainer/tokenizer/bpe_tokenizer.h"

#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/trainer/tokenizer/random_bpe.h"
#include "trainer/failure.h"
#include "trainer/tokenizer/byte_tokenizer.h"
#include "trainer/tokenizer/read_tokenizer.h"

namespace weft::trainer::bpe_tokenizer_test {
namespace {

using Tokens = std::vector<Token>;

Tokens Encoded(Tokenizer& tokenizer, std::string_view text,
               SpecialText special = SpecialText::kAsText) {
  Tokens tokens;
  tokenizer.Encode(text, &tokens, special);
  return tokens;
}

std::string Decoded(const Tokenizer& tokenizer, const Tokens& tokens) {
  std::string text;
  tokenizer.Decode(tokens, &text);
  return text;
}

// Looks at all pairs for each merge. A pair has one product here, and a product one pair.
Tokens SlowMerge(const BpeModel& model, Tokens tokens) {
  std::map<std::pair<Token, Token>, std::pair<size_t, Token>> ranks;
  for (size_t rank = 0; rank < model.merges.size(); rank++)
    ranks[{model.merges[rank].left, model.merges[rank].right}] = {rank, model.merges[rank].product};
  for (;;) {
    size_t best = model.merges.size(), at = 0;
    for (size_t i = 0; i + 1 < tokens.size(); i++) {
      const auto found = ranks.find({tokens[i], tokens[i + 1]});
      if (found != ranks.end() && found->second.first < best) {
        best = found->second.first;
        at = i;
      }
    }
    if (best == model.merges.size()) return tokens;
    tokens[at] = model.merges[best].product;
    tokens.erase(tokens.begin() + std::ptrdiff_t(at) + 1);
  }
}

Tokens SlowEncode(const BpeModel& model, std::string_view text) {
  Tokens all;
  for (size_t at = 0, end = 0; at < text.size(); at = end) {
    end = PieceEnd(model.split, text, at);
    Tokens piece;
    for (const char byte : text.substr(at, end - at))
      piece.push_back(OfByte(model, byte));
    piece = SlowMerge(model, piece);
    all.insert(all.end(), piece.begin(), piece.end());
  }
  return all;
}

// Each product by its first pair alone.
void KeepOneMergeOfEach(BpeModel* model) {
  std::vector<bool> made(model->tokens.size());
  std::erase_if(model->merges, [&](const Merge& merge) {
    const bool again = made[merge.product];
    made[merge.product] = true;
    return again;
  });
}

std::string RandomLetters(std::mt19937_64& random, const std::string& alphabet, size_t count) {
  std::string text;
  for (; count > 0; count--)
    text += alphabet[random() % alphabet.size()];
  return text;
}

TEST(BpeTokenizer, MergesAsTheSlowReferenceDoes) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 40; round++) {
    const std::string alphabet = std::string("abcd e").substr(0, 2 + random() % 5);
    BpeModel model = RandomBpe(random, random() % 60, alphabet);
    model.split = random() % 2 == 0 ? SplitPattern::kGpt2 : SplitPattern::kLlama3;
    KeepOneMergeOfEach(&model);
    BpeTokenizer tokenizer(model);
    for (int i = 0; i < 20; i++) {
      const std::string text = RandomLetters(random, alphabet, random() % 60);
      const Tokens tokens = Encoded(tokenizer, text);
      ASSERT_EQ(tokens, SlowEncode(model, text)) << text;
      ASSERT_EQ(Encoded(tokenizer, text), tokens) << "from the cache: " << text;
      ASSERT_EQ(Decoded(tokenizer, tokens), text);
    }
  }
}

TEST(BpeTokenizer, GivesBackAnyBytes) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  std::string all;
  for (int byte = 0; byte < 256; byte++)
    all += char(byte);
  for (const SplitPattern split : {SplitPattern::kGpt2, SplitPattern::kLlama3}) {
    BpeModel model = RandomBpe(random, 300, all);
    model.split = split;
    BpeTokenizer tokenizer(std::move(model));
    ByteTokenizer bytes;
    for (size_t length : {0, 1, 2, 3, 7, 16, 17, 100, 5000}) {
      const std::string text = RandomLetters(random, all, length);
      EXPECT_EQ(Decoded(tokenizer, Encoded(tokenizer, text)), text);
      EXPECT_EQ(Decoded(bytes, Encoded(bytes, text)), text);
      EXPECT_EQ(Encoded(bytes, text).size(), length);
    }
  }
}

// Quadratic time would be hours.
TEST(BpeTokenizer, OnePieceMayBeMegabytes) {
  BpeModel model = BytesAlone();
  const Token a = OfByte(model, 'a');
  Token last = a;
  for (int doubling = 0; doubling < 6; doubling++) {
    const Token product = Token(model.tokens.size());
    model.tokens.push_back({model.tokens[last].bytes + model.tokens[last].bytes, true});
    model.merges.push_back({last, last, product});
    last = product;
  }
  BpeTokenizer tokenizer(std::move(model));
  EXPECT_EQ(Encoded(tokenizer, std::string(1 << 20, 'a')), Tokens((1 << 20) / 64, last));
}

TEST(BpeTokenizer, SlicesHaveTheTokensOfTheWhole) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  const std::string alphabet = "ab' 1\n!<>|";
  for (int round = 0; round < 40; round++) {
    BpeModel model = RandomBpe(random, 40, alphabet);
    model.split = random() % 2 == 0 ? SplitPattern::kGpt2 : SplitPattern::kLlama3;
    for (const std::string text : {"a b", "<|ab|>", " b!", "1 1"}) {
      const bool special = random() % 2 == 0;
      model.added.push_back({Token(model.tokens.size()), text, special, random() % 2 == 0});
      model.tokens.push_back({text, false});
    }
    BpeTokenizer tokenizer(std::move(model));
    const std::string text = RandomLetters(random, alphabet, 300) + "a b <|ab|> b!" +
                             RandomLetters(random, alphabet, 100);
    for (const SpecialText special : {SpecialText::kAsText, SpecialText::kAsTokens}) {
      Tokens sliced;
      for (size_t at = 0, end = 0; at < text.size(); at = end) {
        end = tokenizer.NextCut(text, std::min(text.size(), at + random() % 20));
        ASSERT_GE(end, at);
        if (end == at) end = tokenizer.NextCut(text, at + 1);
        tokenizer.Encode(std::string_view(text).substr(at, end - at), &sliced, special);
      }
      ASSERT_EQ(sliced, Encoded(tokenizer, text, special)) << text;
    }
  }
}

TEST(BpeTokenizer, SpecialTextIsATokenOnlyWhenAskedFor) {
  BpeModel model = BytesAlone();
  model.tokens.push_back({"<|endoftext|>", false});
  model.tokens.push_back({"  ", false});
  model.tokens.push_back({"    ", false});
  model.added = {
      {256, "<|endoftext|>", true, false}, {257, "  ", false, true}, {258, "    ", false, true}};
  model.end_of_text = 256;
  BpeTokenizer tokenizer(model);
  EXPECT_EQ(tokenizer.end_of_text(), 256u);
  const Token a = OfByte(model, 'a');
  EXPECT_EQ(Encoded(tokenizer, "a<|endoftext|>a", SpecialText::kAsTokens), (Tokens{a, 256, a}));
  EXPECT_EQ(Encoded(tokenizer, "a<|endoftext|>a").size(), 15u);
  EXPECT_EQ(Encoded(tokenizer, "a      a"), (Tokens{a, 258, 257, a}))
      << "the longest first, and not only when asked for";
  EXPECT_EQ(Decoded(tokenizer, {a, 256, 258}), "a<|endoftext|>    ");
}

TEST(BpeTokenizer, WholePiecesGoBeforeMergesIfTheVocabularySaysSo) {
  BpeModel model = BytesAlone();
  model.tokens.push_back({"abc", true});  // no merge makes it
  BpeTokenizer merged(model);
  EXPECT_EQ(Encoded(merged, "abc").size(), 3u);
  model.whole_pieces_first = true;
  BpeTokenizer whole(model);
  EXPECT_EQ(Encoded(whole, "abc"), Tokens{256});
  EXPECT_EQ(Encoded(whole, "abcd").size(), 4u);
}

TEST(BpeTokenizer, ClonesEncodeAlike) {
  std::mt19937_64 random(7);
  BpeTokenizer tokenizer(RandomBpe(random, 50, "abc "));
  const auto clone = tokenizer.Clone();
  const std::string text = RandomLetters(random, "abc ", 1000);
  EXPECT_EQ(Encoded(*clone, text), Encoded(tokenizer, text));
  EXPECT_EQ(clone->vocabulary(), tokenizer.vocabulary());
}

std::string Refusal(const BpeModel& model) {
  try {
    BpeTokenizer tokenizer(model, "it");
  } catch (const BadInput& error) {
    return error.what();
  }
  return "";
}

TEST(BpeTokenizer, RefusesModelsThatAreNone) {
  BpeModel model = BytesAlone();
  EXPECT_EQ(Refusal(model), "");
  BpeModel wrong = model;
  wrong.tokens[5].bytes = "ab";
  EXPECT_EQ(Refusal(wrong), "it: no token is byte 0x26 (\"&\"), so some text has no tokens");
  wrong = model;
  wrong.tokens.push_back({"a", true});
  EXPECT_EQ(Refusal(wrong), "it: tokens 64 and 256 (\"a\") have the same text");
  wrong = model;
  wrong.merges.push_back({1, 2, 3});
  EXPECT_EQ(Refusal(wrong),
            "it: merge 1 of 1 (\"\"\") and 2 (\"#\") does not make token 3 (\"$\")");
  wrong.merges[0].product = 1000;
  EXPECT_EQ(Refusal(wrong), "it: merge 1 names token 1000 of 256");
  wrong = model;
  wrong.tokens.push_back({"!!", true});
  wrong.merges = {{0, 0, 256}, {0, 0, 256}};
  EXPECT_EQ(Refusal(wrong), "it: merge 2 of 0 (\"!\") and 0 (\"!\") is there twice");
  wrong = model;
  wrong.added.push_back({3, "x", true, false});
  EXPECT_EQ(Refusal(wrong), "it: added token \"x\" has the number of 3 (\"$\")");
}

TEST(BpeTokenizer, RefusesTokensOfOthers) {
  BpeTokenizer tokenizer(BytesAlone());
  EXPECT_THROW(Decoded(tokenizer, {256}), BadInput);
  EXPECT_THROW(Decoded(ByteTokenizer(), {256}), BadInput);
}

}  // namespace
}  // namespace weft::trainer::bpe_tokenizer_test
