#include "base/text.h"

#include <cstring>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "base/utf8.h"

namespace weft::text_test {
namespace {

TEST(CopyText, FillsUpWithZeros) {
  char to[8];
  std::memset(to, 'x', sizeof(to));
  CopyText(to, "abc");
  EXPECT_EQ(std::string(to, sizeof(to)), std::string("abc\0\0\0\0\0", 8));
  CopyText(to, "");
  EXPECT_EQ(std::string(to, sizeof(to)), std::string(8, '\0'));
}

TEST(CopyText, CutsWhatDoesNotFitAndTerminates) {
  char to[4];
  CopyText(to, "abc");
  EXPECT_STREQ(to, "abc");
  CopyText(to, "abcd");
  EXPECT_STREQ(to, "abc");
  char nothing[1] = {'x'};
  CopyText(nothing, "abc");
  EXPECT_EQ(nothing[0], 0);
}

TEST(StrCat, TakesStandardAndOtherTexts) {
  EXPECT_EQ(StrCat(std::string_view("a"), std::string("b"), "c", 1, -2), "abc1-2");
}

TEST(IsUtf8, TakesEveryCharacterOnceAndNothingElse) {
  for (const char* const text :
       {"", "abc", "имя ✓", "\U0010ffff", "\x7f", "\xc2\x80", "\xed\x9f\xbf", "\xee\x80\x80"})
    EXPECT_TRUE(IsUtf8(text)) << text;
  // Latin-1; a character that is cut off; longer forms than needed; a surrogate; above U+10FFFF; no first byte; a second character that is cut off.
  for (const char* const text :
       {"caf\xe9", "\xc3", "\xe2\x9c", "\xf0\x9f\x98", "\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf",
        "\xf0\x8f\xbf\xbf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\x80", "\xff",
        "ab\xc3\xa9\xc3"})
    EXPECT_FALSE(IsUtf8(text)) << text;
  // A zero is a character.
  EXPECT_TRUE(IsUtf8(std::string_view("a\0b", 3)));
}

}  // namespace
}  // namespace weft::text_test
