// What was sent and is kept until it has come, against a plain string that forgets nothing.
#include "comm/transport/sent_bytes.h"

#include <algorithm>
#include <array>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/text.h"
#include "tests/support/case_sample.h"

namespace weft::test::sent_bytes_test {
namespace {

std::string TextFrom(const SentBytes& sent, uint64_t position) {
  std::string text;
  std::array<iovec, 3> pieces;  // few, so that several calls are needed
  while (const size_t count = sent.PiecesFrom(position + text.size(), pieces)) {
    for (size_t i = 0; i < count; ++i)
      text.append(static_cast<const char*>(pieces[i].iov_base), pieces[i].iov_len);
  }
  return text;
}

TEST(SentBytes, AreThoseThatWereKeptAndBorrowedInTheirOrder) {
  const std::vector<std::byte> memory(1000, std::byte{'m'});
  SentBytes sent;
  EXPECT_EQ(TextFrom(sent, 0), "");
  sent.Keep("abc", 3);
  sent.Borrow(memory.data(), 5);
  sent.Keep("de", 2);
  EXPECT_EQ(sent.end(), 10u);
  EXPECT_EQ(sent.kept_bytes(), 5u);
  EXPECT_EQ(TextFrom(sent, 0), "abcmmmmmde");
  EXPECT_EQ(TextFrom(sent, 7), "mde");
  sent.Acknowledge(4);
  EXPECT_EQ(sent.kept_bytes(), 2u);
  EXPECT_EQ(TextFrom(sent, 4), "mmmmde");
  sent.Acknowledge(10);
  EXPECT_EQ(TextFrom(sent, 10), "");
  EXPECT_EQ(sent.kept_bytes(), 0u);
  sent.Keep("f", 1);
  EXPECT_EQ(TextFrom(sent, 10), "f");
}

TEST(SentBytes, OfMemoryThatIsGivenBackAreCopied) {
  std::vector<std::byte> memory(20, std::byte{'m'});
  std::vector<std::byte> other(20, std::byte{'o'});
  SentBytes sent;
  sent.Borrow(memory.data(), 10);
  sent.Borrow(other.data(), 3);
  sent.Borrow(memory.data() + 10, 2);
  sent.Acknowledge(4);
  sent.Own(memory.data(), memory.size());
  std::fill(memory.begin(), memory.end(), std::byte{'x'});
  EXPECT_EQ(TextFrom(sent, 4), "mmmmmmooomm");
  sent.Acknowledge(6);
  EXPECT_EQ(TextFrom(sent, 6), "mmmmooomm");
  std::fill(other.begin(), other.end(), std::byte{'y'});
  EXPECT_EQ(TextFrom(sent, 6), "mmmmyyymm");
}

TEST(SentBytes, OfAnyOrderAreWhatWasSent) {
  const uint64_t first = FirstSeedToTry(1);
  for (uint64_t seed = first; seed < first + 200; ++seed) {
    SCOPED_TRACE(StrCat("WEFT_TEST_SEED=", seed));
    std::mt19937_64 random(seed);
    std::string memory(40'000, '\0');
    for (char& letter : memory)
      letter = static_cast<char>('a' + random() % 26);
    SentBytes sent;
    std::string all;
    uint64_t acknowledged = 0;
    const size_t bytes_max = seed % 3 == 0 ? 30'000 : 300;
    for (int step = 0; step < 300; ++step) {
      const size_t bytes = random() % bytes_max;
      const size_t offset = random() % (memory.size() - bytes);
      switch (random() % 4) {
        case 0:
          sent.Borrow(reinterpret_cast<const std::byte*>(memory.data()) + offset, bytes);
          all.append(memory, offset, bytes);
          break;
        case 1:
        case 2:
          sent.Keep(memory.data() + offset, bytes);
          all.append(memory, offset, bytes);
          break;
        default:
          acknowledged += random() % (all.size() - acknowledged + 1);
          sent.Acknowledge(acknowledged);
      }
      ASSERT_EQ(sent.end(), all.size());
      const uint64_t from = acknowledged + random() % (all.size() - acknowledged + 1);
      ASSERT_TRUE(TextFrom(sent, from) == all.substr(from));
    }
    sent.Own(reinterpret_cast<const std::byte*>(memory.data()), memory.size());
    std::fill(memory.begin(), memory.end(), '.');
    ASSERT_TRUE(TextFrom(sent, acknowledged) == all.substr(acknowledged));
  }
}

}  // namespace
}  // namespace weft::test::sent_bytes_test
