#include "comm/hierarchy/descriptor_room.h"

#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/fd.h"

namespace weft::descriptor_room_test {
namespace {

TEST(DescriptorRoom, SaysNothingWhereThereIsRoom) {
  EXPECT_EQ(DescriptorSentence({.links = 100, .open = 924, .limit = 1024}), "");
  EXPECT_EQ(DescriptorSentence({.links = 65'535, .open = 20, .limit = UINT64_MAX}), "");
}

TEST(DescriptorRoom, SaysWhatIsNeeded) {
  const std::string lacks = DescriptorSentence({.links = 1000, .open = 25, .limit = 1024});
  EXPECT_THAT(lacks, testing::HasSubstr("may need 1000 connections"));
  EXPECT_THAT(lacks, testing::HasSubstr("of the 1024 files"));
  EXPECT_THAT(lacks, testing::HasSubstr("to 1025 or more (ulimit -n)"));
  EXPECT_NE(DescriptorSentence({.links = 2000, .open = 0, .limit = 1024}), "");
}

TEST(DescriptorRoom, CountsWhatIsOpen) {
  const uint64_t before = OpenDescriptors();
  ASSERT_GE(before, 1U);
  const UniqueFd more(dup(STDERR_FILENO));
  ASSERT_TRUE(more.valid());
  EXPECT_EQ(OpenDescriptors(), before + 1);
  rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  if (limit.rlim_cur != RLIM_INFINITY) {
    EXPECT_EQ(DescriptorLimit(), limit.rlim_cur);
  }
}

}  // namespace
}  // namespace weft::descriptor_room_test
