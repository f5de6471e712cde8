// The expected pieces are those of the tokenizers package; tokenizers_package_test.py compares many
// more.
#include "trainer/tokenizer/split.h"

#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "trainer/tokenizer/char_class.h"

namespace weft::trainer::split_test {
namespace {

using Pieces = std::vector<std::string>;

Pieces PiecesOf(SplitPattern split, std::string_view text) {
  Pieces pieces;
  for (size_t at = 0, end = 0; at < text.size(); at = end) {
    end = PieceEnd(split, text, at);
    if (end <= at || end > text.size()) {
      ADD_FAILURE() << "a piece from " << at << " to " << end << " of " << text.size();
      break;
    }
    pieces.emplace_back(text.substr(at, end - at));
  }
  return pieces;
}

struct Case {
  const char* text;
  Pieces gpt2, llama3;
};

const Case kCases[] = {
    {"", {}, {}},
    {"Hello world", {"Hello", " world"}, {"Hello", " world"}},
    {"it's we'll I'd",
     {"it", "'s", " we", "'ll", " I", "'d"},
     {"it", "'s", " we", "'ll", " I", "'d"}},
    {"IT'S we'LL'", {"IT", "'", "S", " we", "'", "LL", "'"}, {"IT", "'S", " we", "'LL", "'"}},
    {"x'st", {"x", "'s", "t"}, {"x", "'s", "t"}},
    {"x'lx'r", {"x", "'", "lx", "'", "r"}, {"x", "'lx", "'r"}},
    {" 's", {" '", "s"}, {" '", "s"}},
    {"x'\u017fa", {"x", "'", "\u017fa"}, {"x", "'\u017f", "a"}},
    {"a  b   c", {"a", " ", " b", "  ", " c"}, {"a", " ", " b", "  ", " c"}},
    {"a\tb\t\tc", {"a", "\t", "b", "\t", "\t", "c"}, {"a", "\tb", "\t", "\tc"}},
    {"a  ", {"a", "  "}, {"a", "  "}},
    {"a\n\n  b", {"a", "\n\n ", " b"}, {"a", "\n\n", " ", " b"}},
    {"a \n \n b", {"a", " \n \n", " b"}, {"a", " \n \n", " b"}},
    {"a!!\n\nb", {"a", "!!", "\n", "\n", "b"}, {"a", "!!\n\n", "b"}},
    {"a\r\nb", {"a", "\r", "\n", "b"}, {"a", "\r\n", "b"}},
    {"\nabc", {"\n", "abc"}, {"\n", "abc"}},
    {"(abc) {}", {"(", "abc", ")", " {}"}, {"(abc", ")", " {}"}},
    {"12345 678", {"12345", " 678"}, {"123", "45", " ", "678"}},
    {"a1b22", {"a", "1", "b", "22"}, {"a", "1", "b", "22"}},
    {"\u00a0a\u00a0\u00a0b",
     {"\u00a0", "a", "\u00a0", "\u00a0", "b"},
     {"\u00a0a", "\u00a0", "\u00a0b"}},
    {"e\u0301a", {"e", "\u0301", "a"}, {"e", "\u0301a"}},
    {"\u4f60\u597d\u3002\u4e16",
     {"\u4f60\u597d", "\u3002", "\u4e16"},
     {"\u4f60\u597d", "\u3002\u4e16"}},
    {"hi\U0001f411\U0001f411!", {"hi", "\U0001f411\U0001f411!"}, {"hi", "\U0001f411\U0001f411!"}},
    {"\u0663\u0664\u0665\u0666", {"\u0663\u0664\u0665\u0666"}, {"\u0663\u0664\u0665", "\u0666"}},
    {"\u01c5x\u02b0\u2160\u00bd",
     {"\u01c5x\u02b0", "\u2160\u00bd"},
     {"\u01c5x\u02b0", "\u2160\u00bd"}},
    {"a\u0085\u2028b", {"a", "\u0085", "\u2028", "b"}, {"a", "\u0085", "\u2028b"}},
    {"a\u3000\u3000", {"a", "\u3000\u3000"}, {"a", "\u3000\u3000"}},
    {"a\u200bb", {"a", "\u200b", "b"}, {"a", "\u200bb"}},
    // No UTF-8: a lone byte, a cut character, an overlong one, a surrogate.
    {"a\xff b\xe4\xbd", {"a", "\xff", " b", "\xe4\xbd"}, {"a", "\xff", " b", "\xe4\xbd"}},
    {"\xc0\x80x\xed\xa0\x80", {"\xc0\x80", "x", "\xed\xa0\x80"}, {"\xc0\x80", "x", "\xed\xa0\x80"}},
};

TEST(Split, CutsAsThePatternsSay) {
  for (const Case& one : kCases) {
    EXPECT_EQ(PiecesOf(SplitPattern::kGpt2, one.text), one.gpt2) << one.text;
    EXPECT_EQ(PiecesOf(SplitPattern::kLlama3, one.text), one.llama3) << one.text;
  }
}

TEST(Split, KnowsItsPatternsByTheirRegexes) {
  for (const SplitPattern split : {SplitPattern::kGpt2, SplitPattern::kLlama3})
    EXPECT_EQ(PatternOf(RegexOf(split)), split);
  EXPECT_EQ(PatternOf("\\s+"), std::nullopt);
}

TEST(CharClass, NextLineIsSpaceAndAsciiControlsAreNot) {
  EXPECT_EQ(CharAt("\u0085", 0).kind, CharClass::kSpace);
  EXPECT_EQ(CharAt("\x1c", 0).kind, CharClass::kOther);
  EXPECT_EQ(CharAt(std::string_view("\0", 1), 0).kind, CharClass::kOther);
  EXPECT_EQ(CharAt("\x0b", 0).kind, CharClass::kSpace);
}

// Text of what the patterns tell apart, with bytes that are no UTF-8 between.
std::string RandomText(std::mt19937_64& random) {
  static constexpr const char* kParts[] = {
      "a",      "S",      "'",          "'s",     "'ll",  "re",       " ",   " ",      "  ",
      "\n",     "\r",     "\t",         "1",      "22",   "!",        "-",   "\u00a0", "\u3000",
      "\u4f60", "\u0301", "\U0001f411", "\u0663", "\xff", "\xe4\xbd", "\xc2"};
  std::string text;
  for (size_t parts = random() % 40; parts > 0; parts--)
    text += kParts[random() % std::size(kParts)];
  return text;
}

TEST(Split, PiecesOfTwoPartsAreThoseOfTheWholeAtEveryBorder) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  size_t borders = 0;
  for (int round = 0; round < 500; round++) {
    const std::string text = RandomText(random);
    for (const SplitPattern split : {SplitPattern::kGpt2, SplitPattern::kLlama3}) {
      const Pieces whole = PiecesOf(split, text);
      for (size_t from = 0; from <= text.size(); from++) {
        const size_t cut = NextPieceBorder(text, from);
        ASSERT_GE(cut, from);
        Pieces both = PiecesOf(split, std::string_view(text).substr(0, cut));
        const Pieces rest = PiecesOf(split, std::string_view(text).substr(cut));
        both.insert(both.end(), rest.begin(), rest.end());
        ASSERT_EQ(both, whole) << "cut at " << cut << " of " << testing::PrintToString(text);
        borders += cut < text.size();
      }
    }
  }
  EXPECT_GT(borders, 2500u);
}

}  // namespace
}  // namespace weft::trainer::split_test
