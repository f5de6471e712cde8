#include "base/mappings.h"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "base/status.h"

namespace weft::test {
namespace {

constexpr std::string_view kMaps =
    "10000-14000 rw-p 00000000 00:00 0 \n"
    "14000-15000 rw-p 00001000 08:01 99                        /lib/a [stack] b.so\n"
    "15000-16000 r--p 00001000 08:01 99                        /lib/a.so\n"
    "16000-17000 rw-s 00000000 00:01 7                         /memfd:x (deleted)\n"
    "17000-18000 rwxp 00000000 00:00 0 \n"
    "18000-19000 rw-p 00000000 00:00 0                         [stack]\n"
    "1a000-1b000 rw-p 00000000 00:00 0                         [heap]\n";

// The sentence for [begin, begin + bytes), "" if there is none.
std::string Verdict(uintptr_t begin, size_t bytes) {
  const absl::Status status =
      CheckOrdinaryMemory(kMaps, reinterpret_cast<const void*>(begin), bytes);
  EXPECT_EQ(ResultOf(status), status.ok() ? WEFT_SUCCESS : WEFT_INVALID_ARGUMENT);
  return std::string(status.message());
}

TEST(Mappings, PrivateWritableMemoryIsOrdinaryAcrossItsMappings) {
  EXPECT_EQ(Verdict(0x10000, 0x4000), "");
  EXPECT_EQ(Verdict(0x13000, 0x2000), "");
  EXPECT_EQ(Verdict(0x14fff, 1), "");
  EXPECT_EQ(Verdict(0x1a000, 0x1000), "");
}

TEST(Mappings, OtherMemoryIsRefusedWithTheAddressAndTheReason) {
  EXPECT_EQ(Verdict(0x13000, 0x3000), "the memory at 0x15000 is not readable and writable (r--p)");
  EXPECT_EQ(Verdict(0x16800, 1), "the memory at 0x16800 is shared (rw-s)");
  EXPECT_EQ(Verdict(0x17000, 1), "the memory at 0x17000 is executable (rwxp)");
  EXPECT_EQ(Verdict(0x18000, 1), "the memory at 0x18000 is a stack");
  EXPECT_EQ(Verdict(0x19000, 1), "the memory at 0x19000 is not mapped");
  EXPECT_EQ(Verdict(0x1a000, 0x1001), "the memory at 0x1b000 is not mapped");
  EXPECT_EQ(Verdict(0x1000, 1), "the memory at 0x1000 is not mapped");
}

TEST(Mappings, LinesThatAreNoneAreSkipped) {
  EXPECT_EQ(ResultOf(CheckOrdinaryMemory("rubbish\n-\n10-\n1000-2000 rw", nullptr, 1)),
            WEFT_INVALID_ARGUMENT);
}

TEST(Mappings, OfThisProcess) {
  static char data[64] = {1};
  EXPECT_TRUE(CheckOrdinaryMemory(data, sizeof(data)).ok());
  EXPECT_EQ(ResultOf(CheckOrdinaryMemory(__builtin_frame_address(0), 1)), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(ResultOf(CheckOrdinaryMemory("a literal", 1)), WEFT_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace weft::test
