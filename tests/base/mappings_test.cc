#include "base/mappings.h"

#include <string>
#include <string_view>

#include <gtest/gtest.h>
#include <sys/sysmacros.h>

#include "base/status.h"

namespace weft::test::mappings_test {
namespace {

constexpr std::string_view kMaps =
    "10000-14000 rw-p 00000000 00:00 0 \n"
    "14000-15000 rw-p 00001000 08:01 99                        /lib/a [stack] b.so\n"
    "15000-16000 r--p 00001000 08:01 99                        /lib/a.so\n"
    "16000-17000 rw-s 00000000 00:01 7                         /memfd:x (deleted)\n"
    "17000-18000 rwxp 00000000 00:00 0 \n"
    "18000-19000 rw-p 00000000 00:00 0                         [stack]\n"
    "1a000-1b000 rw-p 00000000 00:00 0                         [heap]\n";

constexpr std::string_view kFileMaps =
    "20000-22000 rw-s 00005000 00:1c 7                         /dev/shm/a b\n"
    "22000-23000 rw-s 00007000 00:1c 7                         /dev/shm/a b\n"
    "23000-24000 rw-p 00000000 00:00 0 \n"
    "24000-25000 r--s 00009000 00:1c 7                         /dev/shm/a b\n"
    "25000-26000 rw-s 00009000 00:1c 7                         /dev/shm/a b\n"
    "26000-27000 rw-s 00009000 00:1c 7                         /dev/shm/a b\n";

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

std::string FileVerdict(uintptr_t begin, size_t bytes, const MappedFile& file) {
  const absl::Status status =
      CheckMappingOfFile(kFileMaps, reinterpret_cast<const void*>(begin), bytes, file);
  EXPECT_EQ(ResultOf(status), status.ok() ? WEFT_SUCCESS : WEFT_INVALID_ARGUMENT);
  return std::string(status.message());
}

TEST(Mappings, AMappingOfAFileIsSharedOfThatFileAndFromThatByteOn) {
  const dev_t device = makedev(0, 0x1c);
  EXPECT_EQ(FileVerdict(0x20000, 0x3000, {device, 7, 0x5000}), "");
  EXPECT_EQ(FileVerdict(0x20010, 0x20, {device, 7, 0x5010}), "");
  EXPECT_EQ(FileVerdict(0x20000, 0x3001, {device, 7, 0x5000}),
            "the memory at 0x23000 is not a shared, readable and writable mapping (rw-p)");
  EXPECT_EQ(FileVerdict(0x21000, 1, {device, 8, 0x6000}),
            "the memory at 0x21000 is mapped from another file");
  EXPECT_EQ(FileVerdict(0x21000, 1, {makedev(0, 0x1d), 7, 0x6000}),
            "the memory at 0x21000 is mapped from another file");
  EXPECT_EQ(FileVerdict(0x20000, 1, {device, 7, 0x5001}),
            "the memory at 0x20000 is byte 20480 of the file, not 20481 as was said");
  EXPECT_EQ(FileVerdict(0x24000, 1, {device, 7, 0x9000}),
            "the memory at 0x24000 is not a shared, readable and writable mapping (r--s)");
  EXPECT_EQ(FileVerdict(0x25000, 0x2000, {device, 7, 0x9000}),
            "the memory at 0x26000 is byte 36864 of the file, not 40960 as was said");
  EXPECT_EQ(FileVerdict(0x28000, 1, {device, 7, 0}), "the memory at 0x28000 is not mapped");
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
}  // namespace weft::test::mappings_test
