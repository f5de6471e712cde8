#include "base/pages.h"

#include <cstring>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/status.h"
#include "tests/support/leak_check.h"

namespace weft::pages_test {
namespace {

using ::testing::HasSubstr;

UniqueFd Copy(int fd) {
  return UniqueFd(fcntl(fd, F_DUPFD_CLOEXEC, 0));
}

// Bytes of memory behind the descriptor.
size_t Present(int fd) {
  struct stat info = {};
  EXPECT_EQ(fstat(fd, &info), 0);
  return static_cast<size_t>(info.st_blocks) * 512;
}

TEST(Pages, AreZeroedAndSharedWithAPeer) {
  const test::Holdings before = test::Holdings::Now();
  {
    absl::StatusOr<Pages> mine = Pages::Create("weft-test", 10'000, Backing::kAllocated);
    ASSERT_TRUE(mine.ok()) << mine.status();
    EXPECT_EQ(mine->size(), 12'288u);
    EXPECT_EQ(Present(mine->fd()), 12'288u);
    for (size_t i = 0; i < mine->size(); ++i)
      ASSERT_EQ(mine->data()[i], std::byte{0});
    absl::StatusOr<Pages> peer = Pages::Adopt(Copy(mine->fd()), 10'000);
    ASSERT_TRUE(peer.ok()) << peer.status();
    EXPECT_NE(peer->data(), mine->data());
    std::memcpy(mine->data() + 5'000, "hello", 6);
    EXPECT_STREQ(reinterpret_cast<const char*>(peer->data() + 5'000), "hello");
    const Pages moved = *std::move(peer);
    EXPECT_FALSE(peer->mapped());
    EXPECT_TRUE(moved.mapped());
  }
  EXPECT_EQ(test::Holdings::Now().Since(before), "");
}

TEST(Pages, CannotBeShrunkOrGrownByAnybody) {
  absl::StatusOr<Pages> pages = Pages::Create("weft-test", 4096, Backing::kSparse);
  ASSERT_TRUE(pages.ok());
  EXPECT_EQ(ftruncate(pages->fd(), 0), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(ftruncate(pages->fd(), 1 << 20), -1);
  EXPECT_EQ(errno, EPERM);
}

TEST(Pages, SparseOnesTakeAndGiveBackMemoryByRange) {
  absl::StatusOr<Pages> pages = Pages::Create("weft-test", 1 << 20, Backing::kSparse);
  ASSERT_TRUE(pages.ok());
  EXPECT_EQ(Present(pages->fd()), 0u);
  ASSERT_TRUE(pages->Allocate(8192, 16'384).ok());
  ASSERT_TRUE(pages->Populate(8192, 16'384).ok());
  EXPECT_EQ(Present(pages->fd()), 16'384u);
  std::memset(pages->data() + 8192, 1, 16'384);
  // Only whole pages inside the range go.
  ASSERT_TRUE(pages->Release(8193, 16'383).ok());
  EXPECT_EQ(Present(pages->fd()), 4096u);
  EXPECT_EQ(pages->data()[8192], std::byte{1});
  EXPECT_EQ(pages->data()[12'288], std::byte{0});
  for (const auto& [offset, bytes] :
       {std::pair<size_t, size_t>{1 << 20, 1}, {0, (1 << 20) + 1}, {SIZE_MAX, 2}, {1, SIZE_MAX}}) {
    EXPECT_EQ(ResultOf(pages->Allocate(offset, bytes)), WEFT_INVALID_ARGUMENT);
    EXPECT_EQ(ResultOf(pages->Release(offset, bytes)), WEFT_INVALID_ARGUMENT);
    EXPECT_EQ(ResultOf(pages->Populate(offset, bytes)), WEFT_INVALID_ARGUMENT);
  }
}

TEST(Pages, ImpossibleSizesAreErrorsWithNumbers) {
  EXPECT_EQ(ResultOf(Pages::Create("weft-test", 0, Backing::kSparse).status()),
            WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(ResultOf(Pages::Create("weft-test", SIZE_MAX, Backing::kSparse).status()),
            WEFT_INVALID_ARGUMENT);
  // More address space than a process has.
  const absl::Status huge = Pages::Create("weft-test", size_t{1} << 60, Backing::kSparse).status();
  EXPECT_EQ(ResultOf(huge), WEFT_OUT_OF_MEMORY) << huge;
  EXPECT_THAT(std::string(huge.message()), HasSubstr("TiB"));
}

TEST(Pages, WhatAPeerSendsIsCheckedBeforeItIsMapped) {
  absl::StatusOr<Pages> pages = Pages::Create("weft-test", 8192, Backing::kSparse);
  ASSERT_TRUE(pages.ok());
  EXPECT_EQ(ResultOf(Pages::Adopt(Copy(pages->fd()), 4096).status()), WEFT_CORRUPT);
  EXPECT_EQ(ResultOf(Pages::Adopt(Copy(pages->fd()), 8193).status()), WEFT_CORRUPT);
  UniqueFd unsealed(memfd_create("weft-test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(unsealed.get(), 8192), 0);
  EXPECT_EQ(ResultOf(Pages::Adopt(std::move(unsealed), 8192).status()), WEFT_CORRUPT);
  EXPECT_EQ(ResultOf(Pages::Adopt(UniqueFd(open("/dev/zero", O_RDWR | O_CLOEXEC)), 8192).status()),
            WEFT_CORRUPT);
  EXPECT_EQ(ResultOf(Pages::Adopt(UniqueFd(), 8192).status()), WEFT_CORRUPT);
}

TEST(FormatBytes, PicksAUnit) {
  EXPECT_EQ(FormatBytes(12), "12 bytes");
  EXPECT_EQ(FormatBytes(64 << 20), "64.0 MiB");
  EXPECT_EQ(FormatBytes(1536), "1.5 KiB");
}

}  // namespace
}  // namespace weft::pages_test
