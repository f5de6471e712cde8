#include "cli/weftrun/line_splitter.h"

#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace weft::line_splitter_test {
namespace {

std::vector<std::string> Split(const std::vector<std::string>& pieces) {
  LineSplitter splitter;
  std::vector<std::string> lines;
  const auto each = [&](std::string_view line) {
    lines.emplace_back(line);
  };
  for (const std::string& piece : pieces)
    splitter.Feed(piece, each);
  splitter.Finish(each);
  splitter.Finish(each);  // says nothing twice
  return lines;
}

using Lines = std::vector<std::string>;

TEST(LineSplitter, CutsAtNewlinesOnly) {
  EXPECT_EQ(Split({}), Lines{});
  EXPECT_EQ(Split({"a\nb\n"}), (Lines{"a\n", "b\n"}));
  EXPECT_EQ(Split({"a", "b\n", "\n", "c"}), (Lines{"ab\n", "\n", "c\n"}));
  EXPECT_EQ(Split({std::string("a\0b\rc\n", 6)}), (Lines{std::string("a\0b\rc\n", 6)}));
}

TEST(LineSplitter, CutsLinesThatAreTooLong) {
  const size_t most = LineSplitter::kLineBytesMax;
  EXPECT_EQ(Split({std::string(most, 'x') + "\n"}), (Lines{std::string(most, 'x') + "\n"}));
  EXPECT_EQ(Split({std::string(most, 'x'), "\n"}), (Lines{std::string(most, 'x') + "\n"}));
  EXPECT_EQ(Split({std::string(most + 1, 'x') + "\n"}),
            (Lines{std::string(most, 'x') + "\n", "x\n"}));
  EXPECT_EQ(Split({std::string(most - 1, 'x') + "\u20ac\n"}),
            (Lines{std::string(most - 1, 'x') + "\n", "\u20ac\n"}));
}

TEST(LineSplitter, CutsBytesThatAreNoText) {
  // Continuation bytes only: no character boundary to be found, the cut still happens.
  for (const std::string& line : Split({std::string(100'000, '\x80')})) {
    EXPECT_LE(line.size(), LineSplitter::kLineBytesMax + 1);
  }
}

TEST(LineSplitter, LosesNothingHoweverTheBytesArrive) {
  for (uint32_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::string text;
    for (int i = 0; i < 20; ++i) {
      const size_t length = random() % (random() % 4 == 0 ? 50'000 : 200);
      for (size_t k = 0; k < length; ++k)
        text += static_cast<char>('a' + random() % 26);
      text += '\n';
    }
    Lines pieces;
    for (size_t at = 0; at < text.size();) {
      const size_t take = 1 + random() % 20'000;
      pieces.push_back(text.substr(at, take));
      at += take;
    }
    std::string joined;
    for (const std::string& line : Split(pieces)) {
      ASSERT_EQ(line.find('\n'), line.size() - 1);
      ASSERT_LE(line.size(), LineSplitter::kLineBytesMax + 1);
      joined += line;
      // A line of the full length was cut, unless the text has its end just there.
      if (line.size() == LineSplitter::kLineBytesMax + 1 && text[joined.size() - 1] != '\n') {
        joined.pop_back();
      }
    }
    EXPECT_EQ(joined, text);
  }
}

}  // namespace
}  // namespace weft::line_splitter_test
