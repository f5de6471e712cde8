#include "base/poll_set.h"

#include <atomic>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/status.h"
#include "base/wait.h"

namespace weft::test::poll_set_test {
namespace {

constexpr int64_t kLongNs = 20'000'000'000;

class PollSetTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(set_.Open().ok()); }

  // True if the sleep took less than its time.
  bool SleepEnds(uint32_t heard, bool* readable = nullptr) {
    const int64_t until_ns = MonotonicNs() + kLongNs;
    const bool any = set_.Sleep(heard, until_ns);
    if (readable != nullptr) *readable = any;
    return MonotonicNs() < until_ns;
  }

  PollSet set_;
};

TEST_F(PollSetTest, SleepsUntilTheTimeComes) {
  const int64_t begin_ns = MonotonicNs();
  EXPECT_FALSE(set_.Sleep(set_.rings(), begin_ns + 3'000'000));
  EXPECT_GE(MonotonicNs() - begin_ns, 3'000'000);
  EXPECT_FALSE(set_.Sleep(set_.rings(), begin_ns)) << "the past";
}

TEST_F(PollSetTest, ARingBeforeTheSleepEndsItAtOnce) {
  const uint32_t heard = set_.rings();
  set_.Ring();
  bool readable = true;
  EXPECT_TRUE(SleepEnds(heard, &readable));
  EXPECT_FALSE(readable) << "a ring is no descriptor";
}

TEST_F(PollSetTest, NoRingIsLostAtAnyMoment) {
  constexpr int kRounds = 20'000;
  std::atomic<int> wanted{0};
  std::thread ringer([&] {
    for (int round = 1; round <= kRounds; ++round) {
      wanted.store(round);
      set_.Ring();
      while (wanted.load() == round && round < kRounds)
        std::this_thread::yield();
    }
  });
  for (int done = 0; done < kRounds;) {
    const uint32_t heard = set_.rings();
    if (wanted.load() > done) {
      ++done;
      wanted.store(-1);
      continue;
    }
    ASSERT_TRUE(SleepEnds(heard)) << "round " << done;
  }
  ringer.join();
}

TEST_F(PollSetTest, ADescriptorSaysOnceThatItIsReadable) {
  const UniqueFd event(eventfd(1, EFD_NONBLOCK));
  ASSERT_TRUE(set_.Add(event.get()));
  bool readable = false;
  EXPECT_TRUE(SleepEnds(set_.rings(), &readable));
  EXPECT_TRUE(readable);
  EXPECT_FALSE(set_.Sleep(set_.rings(), MonotonicNs() + 1'000'000)) << "it still is";
  ASSERT_TRUE(set_.Add(event.get())) << "again";
  EXPECT_TRUE(set_.Take());
  EXPECT_FALSE(set_.Take());
}

TEST_F(PollSetTest, ARemovedDescriptorSaysNothingThoughAChildHasACopy) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  int stay[2];
  ASSERT_EQ(pipe(stay), 0);
  ASSERT_TRUE(set_.Add(ends[0]));
  const pid_t child = fork();
  if (child == 0) {
    close(stay[1]);
    char byte = 0;
    _exit(read(stay[0], &byte, 1) == 0 ? 0 : 1);  // until the parent closes
  }
  close(stay[0]);
  set_.Remove(ends[0]);
  close(ends[0]);
  ASSERT_EQ(write(ends[1], "x", 1), 1) << "the child's copy can be read";
  EXPECT_FALSE(set_.Sleep(set_.rings(), MonotonicNs() + 2'000'000));
  close(stay[1]);
  close(ends[1]);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(PollSetTest, ADescriptorSaysOnceThatItIsWritableIfThatIsWanted) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_NONBLOCK), 0);
  const UniqueFd out(ends[0]);
  const UniqueFd in(ends[1]);
  ASSERT_TRUE(set_.Add({.handle = in.get(), .want_write = true}));
  EXPECT_TRUE(set_.Take());
  EXPECT_FALSE(set_.Take()) << "it still is";
  const std::vector<char> much(1 << 20);
  ASSERT_GT(write(in.get(), much.data(), much.size()), 0);
  ASSERT_TRUE(set_.Add({.handle = in.get(), .want_write = true}));
  EXPECT_FALSE(set_.Take()) << "it is full";
  std::vector<char> some(1 << 20);
  ASSERT_GT(read(out.get(), some.data(), some.size()), 0);
  EXPECT_TRUE(set_.Take());
  ASSERT_TRUE(set_.Add({.handle = in.get(), .want_read = true}));
  EXPECT_FALSE(set_.Take()) << "what was wanted before counts no more";
}

TEST_F(PollSetTest, ADescriptorThatIsClosedLeavesTheSet) {
  UniqueFd event(eventfd(0, EFD_NONBLOCK));
  ASSERT_TRUE(set_.Add(event.get()));
  const int number = event.get();
  event.Reset();
  const UniqueFd again(eventfd(1, EFD_NONBLOCK));
  ASSERT_EQ(again.get(), number);
  EXPECT_FALSE(set_.Take()) << "another one of its number is none of the set's";
  ASSERT_TRUE(set_.Add(again.get()));
  EXPECT_TRUE(set_.Take());
}

TEST_F(PollSetTest, ManyDescriptorsAreTakenAtOnce) {
  constexpr int kMany = 50;
  std::vector<UniqueFd> events;
  for (int i = 0; i < kMany; ++i) {
    events.emplace_back(eventfd(1, EFD_NONBLOCK));
    ASSERT_TRUE(set_.Add(events.back().get()));
  }
  EXPECT_TRUE(set_.Take());
  EXPECT_FALSE(set_.Take());
}

TEST(ClosedPollSet, HasNoDescriptors) {
  PollSet set;
  EXPECT_FALSE(set.open());
  EXPECT_FALSE(set.Add(0));
  set.Ring();
  EXPECT_EQ(set.rings(), 1u);
}

}  // namespace
}  // namespace weft::test::poll_set_test
