#include "base/crc32c.h"

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/text.h"

namespace weft::crc32c_test {
namespace {

// RFC 3720, appendix B.4.
TEST(Crc32c, HasTheValuesOfTheStandard) {
  const std::string zeros(32, '\0');
  const std::string ones(32, '\xff');
  std::string rising;
  for (int byte = 0; byte < 32; ++byte)
    rising.push_back(static_cast<char>(byte));
  for (auto* const sum_of : {&Crc32c, &Crc32cByTable}) {
    EXPECT_EQ(sum_of(0, "123456789", 9), 0xe3069283u);
    EXPECT_EQ(sum_of(0, zeros.data(), 32), 0x8a9136aau);
    EXPECT_EQ(sum_of(0, ones.data(), 32), 0x62a8ab43u);
    EXPECT_EQ(sum_of(0, rising.data(), 32), 0x46dd794eu);
    EXPECT_EQ(sum_of(0, nullptr, 0), 0u);
  }
}

TEST(Crc32c, TheInstructionAgreesWithTheTableAtAnyLengthAndPlaceAndInPieces) {
  std::mt19937_64 random(7);
  std::vector<unsigned char> bytes(40'000);
  for (unsigned char& byte : bytes)
    byte = static_cast<unsigned char>(random());
  for (size_t begin = 0; begin < 9; ++begin) {
    for (const size_t count :
         {0, 1, 7, 8, 9, 63, 64, 65, 1000, 4001, 12'287, 12'288, 12'289, 39'991}) {
      SCOPED_TRACE(StrCat("begin ", begin, " count ", count));
      const uint32_t expected = Crc32cByTable(0, &bytes[begin], count);
      EXPECT_EQ(Crc32c(0, &bytes[begin], count), expected);
      const size_t cut = count / 3;
      EXPECT_EQ(Crc32c(Crc32c(0, &bytes[begin], cut), &bytes[begin + cut], count - cut), expected);
    }
  }
}

}  // namespace
}  // namespace weft::crc32c_test
