// The priority of hidden threads: that of whoever starts them, or lower; nobody else's changes.
#include "base/hidden_thread.h"

#include <algorithm>
#include <thread>

#include <sys/resource.h>

#include "absl/status/statusor.h"
#include "gtest/gtest.h"

namespace weft::test::hidden_thread_test {
namespace {

constexpr int kLowestNice = 19;

// Of the calling thread.
int NiceValue() {
  return getpriority(PRIO_PROCESS, 0);
}

int NiceValueOfThread(ThreadPriority priority) {
  int nice_value = -100;
  absl::StatusOr<std::thread> thread = StartHiddenThread(
      "weft-test", [&] { nice_value = NiceValue(); }, priority);
  EXPECT_TRUE(thread.ok()) << thread.status();
  if (thread.ok()) thread->join();
  return nice_value;
}

TEST(HiddenThread, HasThePriorityOfItsStarterUnlessItIsLow) {
  const int mine = NiceValue();
  EXPECT_EQ(NiceValueOfThread(ThreadPriority::kAsStarter), mine);
  EXPECT_EQ(NiceValueOfThread(ThreadPriority::kLow), std::min(mine + 10, kLowestNice));
  EXPECT_EQ(NiceValue(), mine);
}

// One that is as low as can be stays there.
TEST(HiddenThread, LowIsRelativeToItsStarter) {
  std::thread([] {
    const int lower = std::min(NiceValue() + 3, kLowestNice);
    ASSERT_EQ(setpriority(PRIO_PROCESS, 0, lower), 0);
    EXPECT_EQ(NiceValueOfThread(ThreadPriority::kLow), std::min(lower + 10, kLowestNice));
    ASSERT_EQ(setpriority(PRIO_PROCESS, 0, kLowestNice), 0);
    EXPECT_EQ(NiceValueOfThread(ThreadPriority::kLow), kLowestNice);
  }).join();
}

}  // namespace
}  // namespace weft::test::hidden_thread_test
