// To start an operation is to queue it: no start waits for another thread's blocking call, and what was started behind
// one comes after it. Callbacks may start operations, and may destroy the group.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <time.h>

#include "weft/weft.h"

#include "tests/bindings/local_threads.h"

namespace weft::test {
namespace {

// Also run with WEFT_PROGRESS=caller, where nothing moves on its own.
bool CallerDrives() {
  const char* const progress = getenv("WEFT_PROGRESS");
  return progress != nullptr && std::strcmp(progress, "caller") == 0;
}

int64_t NowNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// Moves on what nobody waits for until `done`; false after 30 s.
bool Until(const std::function<bool()>& done) {
  const int64_t end_ns = NowNs() + 30'000'000'000;
  while (!done()) {
    if (NowNs() > end_ns) return false;
    if (CallerDrives()) (void)weft_progress(nullptr);
    std::this_thread::yield();
  }
  return true;
}

struct Pair {
  explicit Pair(const char* name) {
    // What never ends is a deadlock by then.
    const weft_group_config_t config = ConfigNamed(name, 10'000'000'000);
    EXPECT_EQ(weft_group_create_local(2, &config, ranks), WEFT_SUCCESS) << weft_last_error();
  }

  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  ~Pair() {
    for (weft_group_t group : ranks)
      EXPECT_EQ(weft_group_destroy(group), WEFT_SUCCESS);
  }

  bool Pending(int rank, uint64_t count) const {
    weft_group_stats_t stats = {};
    stats.struct_size = sizeof(stats);
    EXPECT_EQ(weft_group_stats(ranks[rank], &stats), WEFT_SUCCESS);
    return stats.pending >= count;
  }

  weft_group_t ranks[2] = {};
};

weft_work_t StartSum(weft_group_t group, std::vector<int>& x) {
  weft_work_t work = nullptr;
  EXPECT_EQ(
      weft_all_reduce(x.data(), x.data(), x.size(), WEFT_INT32, WEFT_SUM, group, nullptr, &work),
      WEFT_SUCCESS)
      << weft_last_error();
  return work;
}

void ExpectSum(weft_group_t group, size_t count) {
  std::vector<int> x(count, 2);
  EXPECT_EQ(
      weft_all_reduce(x.data(), x.data(), count, WEFT_INT32, WEFT_SUM, group, nullptr, nullptr),
      WEFT_SUCCESS)
      << weft_last_error();
  EXPECT_EQ(x, std::vector<int>(count, 3));
}

void ExpectEnds(weft_work_t work, weft_result_t expected = WEFT_SUCCESS) {
  EXPECT_EQ(weft_work_wait(work, 0), expected) << weft_last_error();
  EXPECT_EQ(weft_work_free(work), WEFT_SUCCESS);
}

// Sums of other counts: ranks that do not agree on the order are told.
TEST(Start, BehindAnotherThreadsCallIsAnOrderAndNoWait) {
  Pair pair("behind");
  std::jthread blocked([&] {
    EXPECT_EQ(weft_barrier(pair.ranks[0], nullptr, nullptr), WEFT_SUCCESS) << weft_last_error();
  });
  ASSERT_TRUE(Until([&] { return pair.Pending(0, 1); }));
  std::vector<int> x[3];
  weft_work_t works[3] = {};
  for (size_t i = 0; i < 3; ++i) {
    x[i].assign(i == 1 ? 100'003 : i + 1, 1);
    works[i] = StartSum(pair.ranks[0], x[i]);
    ASSERT_NE(works[i], nullptr);
    EXPECT_EQ(weft_work_error(works[i]), WEFT_IN_PROGRESS);
  }
  EXPECT_TRUE(pair.Pending(0, 4)) << "the call and three that were started";
  int pending = 0;
  EXPECT_EQ(weft_progress(&pending), WEFT_SUCCESS);
  EXPECT_GE(pending, 3);
  EXPECT_EQ(weft_work_wait(works[0], 10'000'000), WEFT_IN_PROGRESS);
  std::jthread last([&] {  // a blocking call of the same thread's comes after them, too
    std::vector<int> y(5, 1);
    EXPECT_EQ(weft_all_reduce(y.data(), y.data(), 5, WEFT_INT32, WEFT_SUM, pair.ranks[0], nullptr,
                              nullptr),
              WEFT_SUCCESS)
        << weft_last_error();
    EXPECT_EQ(y, std::vector<int>(5, 3));
  });
  EXPECT_EQ(weft_barrier(pair.ranks[1], nullptr, nullptr), WEFT_SUCCESS) << weft_last_error();
  blocked.join();
  for (const std::vector<int>& sum : x)
    ExpectSum(pair.ranks[1], sum.size());
  ExpectSum(pair.ranks[1], 5);
  last.join();
  for (size_t i = 0; i < 3; ++i) {
    ExpectEnds(works[i]);
    EXPECT_EQ(x[i], std::vector<int>(x[i].size(), 3));
  }
}

TEST(Start, WhatWasLeftToACallEndsWithItsGroup) {
  Pair pair("aborted");
  std::jthread blocked(
      [&] { EXPECT_EQ(weft_barrier(pair.ranks[0], nullptr, nullptr), WEFT_ABORTED); });
  ASSERT_TRUE(Until([&] { return pair.Pending(0, 1); }));
  std::vector<int> x(3, 1);
  const weft_work_t work = StartSum(pair.ranks[0], x);
  EXPECT_EQ(weft_group_abort(pair.ranks[1], "enough"), WEFT_SUCCESS);
  ExpectEnds(work, WEFT_ABORTED);
  blocked.join();
  EXPECT_EQ(x, std::vector<int>(3, 1));
}

// All the same operation, so that any order is one.
TEST(Start, ManyThreadsStartAndBlockOnOneGroup) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 300;
  Pair pair("many");
  std::vector<std::thread> threads;
  for (int i = 0; i < 2 * kThreads; ++i) {
    threads.emplace_back([&, i] {
      weft_group_t const group = pair.ranks[i % 2];
      std::vector<weft_work_t> works;
      std::vector<std::vector<int>> sums(kRounds, std::vector<int>(1, i % 2 + 1));
      for (int round = 0; round < kRounds; ++round) {
        auto& x = sums[static_cast<size_t>(round)];
        if ((round + i / 2) % 3 == 0) {
          EXPECT_EQ(
              weft_all_reduce(x.data(), x.data(), 1, WEFT_INT32, WEFT_SUM, group, nullptr, nullptr),
              WEFT_SUCCESS)
              << weft_last_error();
        } else {
          works.push_back(StartSum(group, x));
        }
      }
      for (weft_work_t work : works)
        ExpectEnds(work);
      for (const auto& sum : sums)
        EXPECT_EQ(sum[0], 3);
    });
  }
  for (std::thread& thread : threads)
    thread.join();
}

// Rank 0 blocks on `a` and, when what it has started on `b` ends, starts another operation on `a`. Rank 1 goes b, c, a, a,
// and for c, which nobody at rank 0 waits for, somebody must be free.
TEST(Start, FromACallbackStopsNoOtherGroup) {
  Pair a("a");
  Pair b("b");
  Pair c("c");

  struct {
    weft_group_t group;
    std::atomic<bool> called{false};
    std::atomic<weft_work_t> work{nullptr};
  } next{a.ranks[0]};

  std::vector<int> large(3'000'000, 1);
  const weft_work_t of_c = StartSum(c.ranks[0], large);
  std::jthread blocked([&] {
    EXPECT_EQ(weft_barrier(a.ranks[0], nullptr, nullptr), WEFT_SUCCESS) << weft_last_error();
  });
  ASSERT_TRUE(Until([&] { return a.Pending(0, 1); }));
  weft_work_t of_b = nullptr;
  ASSERT_EQ(weft_barrier(b.ranks[0], nullptr, &of_b), WEFT_SUCCESS);
  const auto start = [](weft_result_t, void* user) {
    auto* const to = static_cast<decltype(&next)>(user);
    to->called.store(true);
    weft_work_t work = nullptr;
    EXPECT_EQ(weft_barrier(to->group, nullptr, &work), WEFT_SUCCESS) << weft_last_error();
    to->work.store(work);
  };
  ASSERT_EQ(weft_work_on_complete(of_b, start, &next), WEFT_SUCCESS);
  std::atomic<bool> through{false};
  std::jthread other([&] {
    EXPECT_EQ(weft_barrier(b.ranks[1], nullptr, nullptr), WEFT_SUCCESS) << weft_last_error();
    while (!next.called.load())
      std::this_thread::yield();
    ExpectSum(c.ranks[1], large.size());
    for (int i = 0; i < 2; ++i)
      EXPECT_EQ(weft_barrier(a.ranks[1], nullptr, nullptr), WEFT_SUCCESS) << weft_last_error();
    through.store(true);
  });
  EXPECT_TRUE(Until([&] { return through.load(); }));
  other.join();
  blocked.join();
  EXPECT_EQ(large[0], 3);
  ExpectEnds(next.work.load());
  ExpectEnds(of_b);
  ExpectEnds(of_c);
}

// Of the thread that runs the callback nothing is left in the group, so destroying it has nobody to wait for.
class DestroyInACallback : public testing::Test {
 protected:
  static constexpr int64_t kStallNs = 2'000'000'000;  // that one waits for whoever is inside
  static constexpr int kRounds = 3;  // of which one may not be held up by the machine

  struct Destroyed {
    weft_group_t group = nullptr;
    std::atomic<int64_t> ns{-1};
  };

  // A receive on rank 0, whose callback destroys rank 0.
  weft_work_t Receive(Pair& pair) {
    at_.group = pair.ranks[0];
    at_.ns.store(-1);
    weft_work_t work = nullptr;
    EXPECT_EQ(weft_recv(&byte_, 1, WEFT_UINT8, 1, 0, nullptr, pair.ranks[0], nullptr, &work),
              WEFT_SUCCESS)
        << weft_last_error();
    const auto destroy = [](weft_result_t result, void* user) {
      EXPECT_EQ(result, WEFT_SUCCESS);
      auto* const at = static_cast<Destroyed*>(user);
      const int64_t began_ns = NowNs();
      EXPECT_EQ(weft_group_destroy(at->group), WEFT_SUCCESS);
      at->ns.store(NowNs() - began_ns);
    };
    EXPECT_EQ(weft_work_on_complete(work, destroy, &at_), WEFT_SUCCESS);
    return work;
  }

  static void Send(Pair& pair) {
    const uint8_t byte = 7;
    EXPECT_EQ(weft_send(&byte, 1, WEFT_UINT8, 0, 0, pair.ranks[1], nullptr, nullptr), WEFT_SUCCESS)
        << weft_last_error();
  }

  // `run` makes the callback run.
  void ExpectNoStall(const std::function<void(Pair&, weft_work_t)>& run) {
    int64_t least_ns = INT64_MAX;
    for (int round = 0; round < kRounds && least_ns >= kStallNs; ++round) {
      Pair pair("destroyed");
      const weft_work_t work = Receive(pair);
      run(pair, work);
      ASSERT_TRUE(Until([&] { return at_.ns.load() >= 0; }));
      pair.ranks[0] = nullptr;
      least_ns = std::min(least_ns, at_.ns.load());
      EXPECT_EQ(byte_, 7);
      ExpectEnds(work);
    }
    EXPECT_LT(least_ns, kStallNs);
  }

  uint8_t byte_ = 0;
  Destroyed at_;
};

TEST_F(DestroyInACallback, OnTheThreadThatMovesOperations) {
  ExpectNoStall([](Pair& pair, weft_work_t) { Send(pair); });
}

TEST_F(DestroyInACallback, WithinATest) {
  ExpectNoStall([](Pair& pair, weft_work_t work) {
    Send(pair);
    int done = 0;
    while (done == 0 && weft_work_test(work, &done) == WEFT_SUCCESS) {
    }
  });
}

TEST_F(DestroyInACallback, WithinAWait) {
  ExpectNoStall([](Pair& pair, weft_work_t work) {
    std::jthread sender([&] { Send(pair); });
    EXPECT_EQ(weft_work_wait(work, 0), WEFT_SUCCESS);
    sender.join();
  });
}

// The blocked call's own operation, on its stack, ends with the group.
TEST_F(DestroyInACallback, WithinABlockingReceive) {
  if (!CallerDrives()) GTEST_SKIP() << "another thread might destroy the group before the call";
  ExpectNoStall([](Pair& pair, weft_work_t) {
    std::jthread sender([&] { Send(pair); });
    uint8_t never = 0;
    const weft_result_t result =
        weft_recv(&never, 1, WEFT_UINT8, 1, 1, nullptr, pair.ranks[0], nullptr, nullptr);
    EXPECT_EQ(result, WEFT_ABORTED) << weft_last_error();
    sender.join();
  });
}

}  // namespace
}  // namespace weft::test
