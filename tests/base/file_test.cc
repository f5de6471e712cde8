// Files read and written to their end, and what is said when they cannot be.
#include "base/file.h"

#include <cerrno>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>

#include <fcntl.h>

#include "base/status.h"
#include "gtest/gtest.h"
#include "tests/support/leak_check.h"

namespace weft::test::file_test {
namespace {

TEST(WriteAndClose, WritesEveryByte) {
  const std::string path = ::testing::TempDir() + "/write_file_test";
  std::string text(3 << 20, 'w');
  text += '\0';
  const absl::Status written =
      WriteAndClose(UniqueFd(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600)), text);
  ASSERT_TRUE(written.ok()) << written;
  std::ifstream file(path, std::ios::binary);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), text);
}

TEST(ReadFile, ReadsFromTheBeginningUpToABound) {
  const std::string path = ::testing::TempDir() + "/read_file_test";
  const std::string text(100'000, 'r');
  ASSERT_TRUE(
      WriteAndClose(UniqueFd(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600)), text).ok());
  const UniqueFd fd(open(path.c_str(), O_RDONLY));
  for (const size_t bytes_max : {size_t{0}, size_t{1}, size_t{16 << 10}, size_t{99'999}, SIZE_MAX})
    EXPECT_EQ(*ReadFile(fd.get(), bytes_max, "reading"), text.substr(0, bytes_max));
  EXPECT_EQ(ReadFile(-1, 1, "reading it").status().message(), "reading it: Bad file descriptor");
}

TEST(WriteAndClose, SaysThatTheDeviceIsFull) {
  const absl::Status full = WriteAndClose(UniqueFd(open("/dev/full", O_WRONLY)), "too much");
  EXPECT_EQ(ResultOf(full), ResultOf(SystemError(ENOSPC, "writing")));
  EXPECT_NE(full.message().find("writing"), absl::string_view::npos) << full;
}

}  // namespace
}  // namespace weft::test::file_test
