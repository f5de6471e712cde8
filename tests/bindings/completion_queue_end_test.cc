// Completion queues when something ends early: the group, or the queue, while works are under way and threads wait. Also run
// with WEFT_PROGRESS=caller.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "weft/weft.h"

#include "tests/bindings/completions.h"

namespace weft::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

pid_t ThreadId() {
  return static_cast<pid_t>(syscall(SYS_gettid));
}

// Returns when the thread, which was about to wait, must be inside: it sleeps, or has computed for longer than it takes to
// come there, as it spins. False after 30 s.
bool UntilInside(pid_t thread) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(kPatienceNs);
  const std::string path = "/proc/self/task/" + std::to_string(thread) + "/stat";
  int64_t first_ticks = -1;
  while (std::chrono::steady_clock::now() < end) {
    std::string line;
    std::getline(std::ifstream(path), line);
    std::istringstream fields(line.substr(line.rfind(')') + 1));
    std::string state;
    std::string skipped;
    int64_t user_ticks = 0;
    int64_t system_ticks = 0;
    fields >> state;
    for (int i = 4; i <= 13; ++i)
      fields >> skipped;
    fields >> user_ticks >> system_ticks;
    if (first_ticks < 0) first_ticks = user_ticks + system_ticks;
    if (state == "S" || user_ticks + system_ticks > first_ticks + 2) return true;
    std::this_thread::yield();
  }
  return false;
}

TEST(CompletionQueueEnd, AnAbortedGroupTellsWhyAndTheOthersGoOn) {
  const Pair aborted("aborted");
  const Pair whole("whole");
  const Queue queue;
  queue.Add(aborted.StartBarrier(0), 1);
  queue.Add(aborted.StartBarrier(0), 2);
  queue.Add(whole.StartBarrier(0), 3);
  EXPECT_EQ(weft_group_abort(aborted.ranks[1], "enough of this"), WEFT_SUCCESS);
  size_t told = 0;
  while (told < 2) {
    weft_completion_t ended[8];
    size_t count = 0;
    ASSERT_EQ(weft_completion_queue_wait(queue.get(), kPatienceNs, ended, 8, &count), WEFT_SUCCESS);
    ASSERT_GT(count, 0u);
    for (size_t i = 0; i < count; ++i) {
      EXPECT_EQ(ended[i].token, ++told);
      EXPECT_EQ(ended[i].result, WEFT_ABORTED);
      EXPECT_THAT(ended[i].message, HasSubstr("enough of this"));
    }
  }
  whole.Barrier(1);
  EXPECT_THAT(queue.Wait(), ElementsAre(3));
}

TEST(CompletionQueueEnd, ADestroyedGroupEndsItsWorks) {
  const Queue queue;
  {
    const Pair pair("destroyed");
    queue.Add(pair.StartBarrier(0), 1);
  }
  weft_completion_t ended;
  size_t count = 0;
  ASSERT_EQ(weft_completion_queue_poll(queue.get(), &ended, 1, &count), WEFT_SUCCESS);
  ASSERT_EQ(count, 1u);
  EXPECT_EQ(ended.result, WEFT_ABORTED);
  EXPECT_STRNE(ended.message, "");
}

TEST(CompletionQueueEnd, DestroyingItLeavesWorksAlone) {
  const Pair pair("left");
  weft_work_t kept = nullptr;
  {
    const Queue queue;
    kept = pair.StartBarrier(0);
    EXPECT_EQ(weft_completion_queue_add(queue.get(), kept, 1), WEFT_SUCCESS);
    queue.Add(pair.StartBarrier(0), 2);
    EXPECT_EQ(queue.Pending(), 2u);
  }
  for (int i = 0; i < 2; ++i)
    pair.Barrier(1);
  EXPECT_EQ(weft_work_wait(kept, 0), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(weft_work_free(kept), WEFT_SUCCESS);
}

TEST(CompletionQueueEnd, DestroyingItEndsAWait) {
  for (const bool under_way : {false, true}) {
    const Pair pair("waited for");
    Queue queue;
    if (under_way) queue.Add(pair.StartBarrier(0), 1);
    const weft_completion_queue_t handle = queue.get();
    std::atomic<pid_t> inside{0};
    std::thread waiter([&] {
      weft_completion_t ended;
      size_t count = 99;
      inside = ThreadId();
      const weft_result_t result = weft_completion_queue_wait(handle, 0, &ended, 1, &count);
      EXPECT_EQ(result, WEFT_BAD_STATE);
      EXPECT_THAT(weft_last_error(), HasSubstr("was destroyed"));
      EXPECT_EQ(count, 0u);
    });
    while (inside == 0)
      std::this_thread::yield();
    EXPECT_TRUE(UntilInside(inside)) << "not in the wait";
    queue.Destroy();
    waiter.join();
    if (under_way) pair.Barrier(1);
  }
}

// The queue is destroyed by one thread while others end its works.
TEST(CompletionQueueEnd, EndsAfterItIsDestroyedAreDropped) {
  const Pair pair("late");
  for (int round = 0; round < 200; ++round) {
    Queue queue;
    for (uint64_t token = 0; token < 3; ++token)
      queue.Add(pair.StartBarrier(0), token);
    std::thread other([&] {
      for (int i = 0; i < 3; ++i)
        pair.Barrier(1);
    });
    if (round % 2 == 0) queue.Poll();
    queue.Destroy();
    other.join();
  }
  const weft_work_t last = pair.StartBarrier(0);
  pair.Barrier(1);
  EXPECT_EQ(weft_work_wait(last, 0), WEFT_SUCCESS);
  EXPECT_EQ(weft_work_free(last), WEFT_SUCCESS);
}

// What a batch could not start has ended, too.
TEST(CompletionQueueEnd, TellsWhyAWorkOfABatchWasNotStarted) {
  const Pair pair("refused");
  const Queue queue;
  EXPECT_EQ(weft_group_abort(pair.ranks[0], "before the batch"), WEFT_SUCCESS);
  EXPECT_EQ(weft_batch_begin(), WEFT_SUCCESS);
  const weft_work_t work = pair.StartBarrier(0);
  EXPECT_EQ(weft_batch_end(), WEFT_ABORTED);
  queue.Add(work, 5);
  weft_completion_t ended;
  size_t count = 0;
  ASSERT_EQ(weft_completion_queue_poll(queue.get(), &ended, 1, &count), WEFT_SUCCESS);
  ASSERT_EQ(count, 1u);
  EXPECT_EQ(ended.token, 5u);
  EXPECT_EQ(ended.result, WEFT_ABORTED);
  EXPECT_THAT(ended.message, HasSubstr("before the batch"));
}

// A callback of another work runs on the thread that waits, and may do anything but wait.
TEST(CompletionQueueEnd, MayBeDestroyedByACallbackOfAnotherWork) {
  const Pair pair("callback");
  weft_completion_queue_t queue = nullptr;
  ASSERT_EQ(weft_completion_queue_create(nullptr, &queue), WEFT_SUCCESS);
  const weft_work_t first = pair.StartBarrier(0);
  const weft_work_t second = pair.StartBarrier(0);
  std::atomic<int> destroyed{0};

  struct {
    weft_completion_queue_t queue;
    std::atomic<int>* destroyed;
  } what{queue, &destroyed};

  const auto destroy = [](weft_result_t, void* user) {
    auto* const of = static_cast<decltype(&what)>(user);
    ++*of->destroyed;  // first: the thread that waits goes on when the queue is gone
    EXPECT_EQ(weft_completion_queue_destroy(of->queue), WEFT_SUCCESS);
  };
  ASSERT_EQ(weft_work_on_complete(first, destroy, &what), WEFT_SUCCESS);
  ASSERT_EQ(weft_completion_queue_add(queue, second, 1), WEFT_SUCCESS);
  std::atomic<bool> waiting{false};
  std::thread other([&, waiter = ThreadId()] {
    while (!waiting)
      std::this_thread::yield();
    EXPECT_TRUE(UntilInside(waiter)) << "not in the wait";
    pair.Barrier(1);
    pair.Barrier(1);
  });
  weft_completion_t ended;
  size_t count = 0;
  waiting = true;
  EXPECT_EQ(weft_completion_queue_wait(queue, 0, &ended, 1, &count), WEFT_BAD_STATE);
  other.join();
  EXPECT_EQ(destroyed, 1);
  for (weft_work_t work : {first, second}) {
    EXPECT_EQ(weft_work_wait(work, 0), WEFT_SUCCESS) << weft_last_error();
    EXPECT_EQ(weft_work_free(work), WEFT_SUCCESS);
  }
}

}  // namespace
}  // namespace weft::test
