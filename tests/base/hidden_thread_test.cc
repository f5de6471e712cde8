// The priority of hidden threads: that of whoever starts them, or lower; nobody else's changes.
#include "base/hidden_thread.h"

#include <algorithm>
#include <thread>

#include <pthread.h>
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

// The C library takes the limit for what threads need.
TEST(HiddenThread, HasRoomWhateverTheLimitOnStacks) {
  pthread_attr_t before;
  pthread_attr_t small;
  ASSERT_EQ(pthread_getattr_default_np(&before), 0);
  ASSERT_EQ(pthread_getattr_default_np(&small), 0);
  constexpr size_t kSmallBytes = 64 << 10;
  ASSERT_EQ(pthread_attr_setstacksize(&small, kSmallBytes), 0);
  ASSERT_EQ(pthread_setattr_default_np(&small), 0);
  size_t hidden_bytes = 0;
  size_t own_bytes = 0;
  const auto read_stack = [](size_t* bytes) {
    pthread_attr_t attributes;
    ASSERT_EQ(pthread_getattr_np(pthread_self(), &attributes), 0);
    ASSERT_EQ(pthread_attr_getstacksize(&attributes, bytes), 0);
    pthread_attr_destroy(&attributes);
  };
  absl::StatusOr<std::thread> thread =
      StartHiddenThread("weft-test", [&] { read_stack(&hidden_bytes); });
  ASSERT_TRUE(thread.ok()) << thread.status();
  thread->join();
  std::thread([&] { read_stack(&own_bytes); }).join();
  ASSERT_EQ(pthread_setattr_default_np(&before), 0);
  EXPECT_GE(hidden_bytes, kLeastStackBytes);
  EXPECT_LT(own_bytes, kLeastStackBytes) << "the program's own threads are as it wants them";
  pthread_attr_destroy(&before);
  pthread_attr_destroy(&small);
}

}  // namespace
}  // namespace weft::test::hidden_thread_test
