// Files written to their end, and what is said when they cannot be.
#include "base/write_file.h"

#include <cerrno>
#include <fstream>
#include <iterator>
#include <string>

#include <fcntl.h>

#include "base/status.h"
#include "gtest/gtest.h"
#include "tests/support/leak_check.h"

namespace weft::test {
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

TEST(WriteAndClose, SaysThatTheDeviceIsFull) {
  const absl::Status full = WriteAndClose(UniqueFd(open("/dev/full", O_WRONLY)), "too much");
  EXPECT_EQ(ResultOf(full), ResultOf(SystemError(ENOSPC, "writing")));
  EXPECT_NE(full.message().find("writing"), absl::string_view::npos) << full;
}

}  // namespace
}  // namespace weft::test
