#include "base/text.h"

#include <cstring>
#include <string>

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace weft::text_test
