#include "base/wire.h"

#include <random>

#include <gtest/gtest.h>

#include "tests/support/leak_check.h"

namespace weft::wire_test {
namespace {

TEST(Wire, ReadsWhatWasWritten) {
  WireWriter writer;
  writer.U8(0xff);
  writer.U16(0x1234);
  writer.U32(0xdeadbeef);
  writer.U64(0x0123456789abcdef);
  writer.I32(-5);
  writer.I64(INT64_MIN);
  writer.Text(std::string_view("a\0b", 3));
  writer.Bytes("xyz");
  WireReader reader(writer.data());
  EXPECT_EQ(reader.U8(), 0xff);
  EXPECT_EQ(reader.U16(), 0x1234);
  EXPECT_EQ(reader.U32(), 0xdeadbeefu);
  EXPECT_EQ(reader.U64(), 0x0123456789abcdefu);
  EXPECT_EQ(reader.I32(), -5);
  EXPECT_EQ(reader.I64(), INT64_MIN);
  EXPECT_EQ(reader.Text(3), std::string_view("a\0b", 3));
  EXPECT_FALSE(reader.Finished());
  EXPECT_EQ(reader.Bytes(3), "xyz");
  EXPECT_TRUE(reader.Finished());
}

TEST(Wire, IsLittleEndian) {
  WireWriter writer;
  writer.U32(0x04030201);
  EXPECT_EQ(writer.data(), "\x01\x02\x03\x04");
}

TEST(Wire, AReadPastTheEndIsRememberedAndReadsZeros) {
  WireReader reader("\x01\x02");
  EXPECT_EQ(reader.U32(), 0u);
  EXPECT_FALSE(reader.ok());
  EXPECT_EQ(reader.U8(), 0);
  EXPECT_EQ(reader.Bytes(1), "");
  EXPECT_FALSE(reader.Finished());
}

TEST(Wire, ATextOverItsBoundOrItsBytesIsRefused) {
  WireWriter writer;
  writer.Text("hello");
  WireReader bounded(writer.data());
  EXPECT_EQ(bounded.Text(4), "");
  EXPECT_FALSE(bounded.ok());
  for (const uint32_t claimed : {6u, 0x7fffffffu, 0xffffffffu}) {
    WireWriter lying;
    lying.U32(claimed);
    lying.Bytes("hello");
    WireReader reader(lying.data());
    EXPECT_EQ(reader.Text(SIZE_MAX), "");
    EXPECT_FALSE(reader.ok());
  }
}

TEST(Wire, SurvivesRandomBytes) {
  const unsigned long long seed = test::TestSeed(20261121);
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes(random() % 64, '\0');
    for (char& byte : bytes)
      byte = static_cast<char>(random());
    WireReader reader(bytes);
    size_t taken = 0;
    while (reader.ok() && reader.left() > 0) {
      const size_t before = reader.left();
      if (random() % 2 == 0) {
        reader.U32();
      } else {
        EXPECT_LE(reader.Text(16).size(), 16u);
      }
      if (reader.ok()) taken += before - reader.left();
    }
    EXPECT_LE(taken, bytes.size());
    EXPECT_EQ(reader.Finished(), reader.ok());
  }
}

}  // namespace
}  // namespace weft::wire_test
