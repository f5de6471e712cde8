#include "base/notice_times.h"

#include <vector>

#include <gtest/gtest.h>

namespace weft::test::notice_times_test {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

TEST(NoticeTimes, AreDueAfterTwoTenTwentyFortySeconds) {
  constexpr int64_t kStart = 5 * kSecond;
  NoticeTimes notices(kStart);
  std::vector<int64_t> said;
  for (int64_t now = kStart; now <= kStart + 100 * kSecond; now += kSecond / 10) {
    EXPECT_GT(notices.next_ns(), now - kSecond / 10);
    if (const int64_t waited_s = notices.Due(now); waited_s > 0) said.push_back(waited_s);
  }
  EXPECT_EQ(said, (std::vector<int64_t>{2, 10, 20, 40, 80}));
}

// A process that was stopped, or a call that took long, does not say all that it has missed.
TEST(NoticeTimes, WhatWasMissedIsSaidOnce) {
  NoticeTimes notices(0);
  EXPECT_EQ(notices.Due(35 * kSecond), 35);
  EXPECT_EQ(notices.Due(36 * kSecond), 0);
  EXPECT_EQ(notices.next_ns(), 40 * kSecond);
}

TEST(NoticeTimes, HaveNoOverflow) {
  NoticeTimes notices(INT64_MAX - 1);
  EXPECT_EQ(notices.next_ns(), INT64_MAX);
  NoticeTimes old(0);
  EXPECT_GT(old.Due(INT64_MAX), 0);
}

}  // namespace
}  // namespace weft::test::notice_times_test
