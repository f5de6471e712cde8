#include "base/word_lock.h"

#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace weft::test::word_lock_test {
namespace {

constexpr WaitPolicy kSleepAtOnce{.spins = 0, .yields = 0};
constexpr int64_t kLongNs = 30'000'000'000;

struct Counter {
  EventCount released;
  WordLock lock{released};
  int value WEFT_GUARDED_BY(lock) = 0;
};

TEST(WordLock, HasOneHolderAtATime) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 2000;
  Counter counter;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&counter] {
      for (int round = 0; round < kRounds; ++round) {
        Deadline patience{kLongNs};
        if (!counter.lock.Acquire(kSleepAtOnce, patience)) return;
        ++counter.value;
        counter.lock.Release();
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  if (!counter.lock.TryAcquire()) FAIL() << "nobody holds it any more";
  EXPECT_EQ(counter.value, kThreads * kRounds);
  EXPECT_TRUE(counter.lock.held());
  counter.lock.Release();
  EXPECT_FALSE(counter.lock.held());
}

TEST(WordLock, GivesUpAtTheDeadline) {
  Counter counter;
  if (!counter.lock.TryAcquire()) FAIL() << "nobody holds it";
  std::thread([&counter] {
    Deadline brief{1'000'000};
    if (counter.lock.Acquire(kSleepAtOnce, brief)) {
      ADD_FAILURE() << "two holders";
      counter.lock.Release();
    }
  }).join();
  counter.lock.Release();
}

TEST(WordLock, IsNotWaitedForWhenItIsNotNeeded) {
  Counter counter;
  std::atomic<bool> done{false};
  if (!counter.lock.TryAcquire()) FAIL() << "nobody holds it";
  std::thread waiter([&] {
    Deadline patience{kLongNs};
    const auto unneeded = [&done] {
      return done.load(std::memory_order_seq_cst);
    };
    if (counter.lock.AcquireUnless(kSleepAtOnce, patience, unneeded)) {
      ADD_FAILURE() << "two holders";
      counter.lock.Release();
    }
  });
  done.store(true, std::memory_order_seq_cst);
  NotifyAll(counter.released);
  waiter.join();
  counter.lock.Release();
}

// The lock comes first: who gets it is not told that it was not needed.
TEST(WordLock, IsTakenIfItIsFreeWhetherNeededOrNot) {
  Counter counter;
  Deadline patience{kLongNs};
  if (!counter.lock.AcquireUnless(kSleepAtOnce, patience, [] { return true; })) FAIL();
  counter.lock.Release();
}

}  // namespace
}  // namespace weft::test::word_lock_test
