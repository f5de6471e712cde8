// What completion_queue.h says: each end is told once, to a thread that waits for it, whatever becomes of the handle. Also run
// with WEFT_PROGRESS=caller.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "weft/weft.h"

#include "tests/bindings/completions.h"
#include "tests/bindings/local_threads.h"
#include "tests/bindings/polling.h"

namespace weft::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

TEST(CompletionQueue, TellsTheTokenOfEachWorkThatEnds) {
  for (const size_t count : {1, 1000, 300'007}) {
    const Pair pair("tokens");
    const Queue queue;
    std::vector<int> x[2] = {std::vector<int>(count, 1), std::vector<int>(count, 2)};
    for (size_t rank = 0; rank < 2; ++rank)
      queue.Add(StartSum(pair.ranks[rank], x[rank]), UINT64_MAX - rank);
    EXPECT_THAT(queue.WaitFor(2), UnorderedElementsAre(UINT64_MAX, UINT64_MAX - 1));
    for (const auto& sum : x)
      EXPECT_EQ(sum, std::vector<int>(count, 3));
    EXPECT_EQ(queue.Pending(), 0u);
  }
}

TEST(CompletionQueue, AWorkThatHasEndedIsToldAtOnce) {
  const Pair pair("ended");
  const Queue queue;
  const weft_work_t works[] = {pair.StartBarrier(0), pair.StartBarrier(1)};
  for (weft_work_t work : works)
    EXPECT_EQ(weft_work_wait(work, 0), WEFT_SUCCESS);
  queue.Add(works[0], 7);
  queue.Add(works[1], 7);
  EXPECT_EQ(queue.Pending(), 2u);
  EXPECT_THAT(queue.Poll(), ElementsAre(7, 7)) << "a token may stand for several";
  EXPECT_THAT(queue.Poll(), IsEmpty());
}

TEST(CompletionQueue, WhatDoesNotFitStaysInTheOrderOfTheEnds) {
  const Pair pair("order");
  const Queue queue;
  for (uint64_t token = 0; token < 5; ++token)
    queue.Add(pair.StartBarrier(0), token);
  EXPECT_THAT(queue.Poll(), IsEmpty());
  EXPECT_EQ(queue.Pending(), 5u);
  for (int i = 0; i < 5; ++i)
    pair.Barrier(1);
  Tokens all;
  while (all.size() < 5) {
    const Tokens some = queue.Wait(2);
    ASSERT_FALSE(some.empty());
    EXPECT_LE(some.size(), 2u);
    all.insert(all.end(), some.begin(), some.end());
    EXPECT_EQ(queue.Pending(), 5 - all.size());
  }
  EXPECT_THAT(all, ElementsAre(0, 1, 2, 3, 4));
}

TEST(CompletionQueue, ATimeoutIsInProgressAndNoFailure) {
  const Pair pair("timeout");
  const Queue queue;
  queue.Add(pair.StartBarrier(0), 1);
  EXPECT_EQ(weft_mem_alloc(0, 0, nullptr), WEFT_INVALID_ARGUMENT);
  const std::string sentence = weft_last_error();
  weft_completion_t ended;
  for (const int64_t timeout_ns : {int64_t{1}, int64_t{3'000'000}}) {
    size_t count = 99;
    EXPECT_EQ(weft_completion_queue_wait(queue.get(), timeout_ns, &ended, 1, &count),
              WEFT_IN_PROGRESS);
    EXPECT_EQ(count, 0u);
  }
  EXPECT_EQ(weft_last_error(), sentence);
  pair.Barrier(1);
  EXPECT_THAT(queue.Wait(), ElementsAre(1));
}

TEST(CompletionQueue, AWaitForNothingEndsWithTheIdleTimeout) {
  weft_completion_queue_config_t config = {};
  config.struct_size = sizeof(config);
  config.idle_timeout_ns = 2'000'000;
  const Queue queue(&config);
  weft_completion_t ended;
  size_t count = 99;
  EXPECT_EQ(weft_completion_queue_wait(queue.get(), 0, &ended, 1, &count), WEFT_IN_PROGRESS);
  EXPECT_EQ(count, 0u);
  // But not a wait for something.
  const Pair pair("idle");
  queue.Add(pair.StartBarrier(0), 1);
  std::jthread other([&] {
    EXPECT_EQ(weft_completion_queue_wait(queue.get(), 20'000'000, &ended, 1, &count),
              WEFT_IN_PROGRESS);
    pair.Barrier(1);
  });
  EXPECT_THAT(queue.Wait(64, 0), ElementsAre(1));
}

TEST(CompletionQueue, AWakeEndsOneWaitAndLosesNoCompletion) {
  const Pair pair("wake");
  const Queue queue;
  queue.Wake();
  EXPECT_THAT(queue.Wait(), IsEmpty());
  weft_completion_t ended;
  size_t count = 99;
  EXPECT_EQ(weft_completion_queue_wait(queue.get(), 1'000'000, &ended, 1, &count),
            WEFT_IN_PROGRESS);
  queue.Add(pair.StartBarrier(0), 3);
  std::thread woken([&] { EXPECT_THAT(queue.Wait(64, 0), IsEmpty()); });
  queue.Wake();
  woken.join();
  pair.Barrier(1);
  queue.Wake();
  Tokens tokens;
  for (int i = 0; i < 2; ++i) {
    const Tokens some = queue.Wait();
    tokens.insert(tokens.end(), some.begin(), some.end());
  }
  EXPECT_THAT(tokens, ElementsAre(3)) << "one of the two waits was woken";
}

TEST(CompletionQueue, AThreadThatWaitsBeforeAnythingIsAddedIsTold) {
  const Pair pair("first");
  const Queue queue;
  std::thread waiter([&] { EXPECT_THAT(queue.WaitFor(2), UnorderedElementsAre(1, 2)); });
  queue.Add(pair.StartBarrier(0), 1);
  queue.Add(pair.StartBarrier(1), 2);
  waiter.join();
}

// Each pair's ranks start from threads of their own and wait for nothing; one thread takes all ends.
TEST(CompletionQueue, ManyProducersAndGroupsHaveOneConsumer) {
  constexpr size_t kPairs = 4;
  constexpr size_t kRounds = 200;
  const Queue queue;
  const Pair pairs[kPairs] = {Pair("a"), Pair("b"), Pair("c"), Pair("d")};
  std::vector<std::vector<int>> sums(2 * kPairs * kRounds);
  std::vector<std::thread> producers;
  for (size_t i = 0; i < 2 * kPairs; ++i) {
    producers.emplace_back([&, i] {
      for (size_t round = 0; round < kRounds; ++round) {
        const size_t token = i * kRounds + round;
        const size_t count = round % 50 == 0 ? 20'011 : 1 + round % 7;
        sums[token].assign(count, static_cast<int>(i % 2) + 1);
        queue.Add(StartSum(pairs[i / 2].ranks[i % 2], sums[token]), token);
      }
    });
  }
  Tokens tokens = queue.WaitFor(sums.size());
  for (std::thread& producer : producers)
    producer.join();
  std::sort(tokens.begin(), tokens.end());
  for (size_t token = 0; token < tokens.size(); ++token)
    ASSERT_EQ(tokens[token], token) << "told twice, or not";
  for (const auto& sum : sums)
    EXPECT_EQ(sum, std::vector<int>(sum.size(), 3));
  EXPECT_EQ(queue.Pending(), 0u);
}

TEST(CompletionQueue, ManyConsumersShareTheEnds) {
  constexpr size_t kConsumers = 3;
  constexpr size_t kRounds = 300;
  const Queue queue;
  const Pair pair("shared");
  std::atomic<uint64_t> sum{0};
  std::atomic<size_t> taken{0};
  std::vector<std::thread> consumers;
  for (size_t i = 0; i < kConsumers; ++i) {
    consumers.emplace_back([&] {
      for (Tokens tokens = queue.Wait(4, 0); !tokens.empty(); tokens = queue.Wait(4, 0)) {
        for (const uint64_t token : tokens)
          sum += token;
        if ((taken += tokens.size()) < 2 * kRounds) continue;
        for (size_t other = 0; other < kConsumers; ++other)
          queue.Wake();
      }
    });
  }
  OnThreads(2, [&](int rank) {
    for (uint64_t round = 0; round < kRounds; ++round)
      queue.Add(pair.StartBarrier(rank), round + 1);
  });
  for (std::thread& consumer : consumers)
    consumer.join();
  EXPECT_EQ(taken, 2 * kRounds);
  EXPECT_EQ(sum, kRounds * (kRounds + 1));
}

TEST(CompletionQueue, DescriptorIsReadableWhileCompletionsStand) {
  const Pair pair("descriptor");
  Queue queue;
  const int before = DescriptorsOf("[eventfd]");
  queue.Add(pair.StartBarrier(0), 1);
  int fd = -1;
  ASSERT_EQ(weft_completion_queue_fd(queue.get(), &fd), WEFT_SUCCESS) << weft_last_error();
  int again = -1;
  EXPECT_EQ(weft_completion_queue_fd(queue.get(), &again), WEFT_SUCCESS);
  EXPECT_EQ(again, fd);
  EXPECT_EQ(DescriptorsOf("[eventfd]"), before + 1);
  queue.Add(pair.StartBarrier(0), 2);
  EXPECT_FALSE(Readable(fd, 20)) << "the other rank has not come";
  pair.Barrier(1);
  pair.Barrier(1);
  Tokens tokens;
  while (tokens.size() < 2) {
    if (CallerDrives()) {
      EXPECT_EQ(weft_progress(nullptr), WEFT_SUCCESS);
    }
    ASSERT_TRUE(Readable(fd, 20'000));
    const Tokens one = queue.Poll(1);
    ASSERT_EQ(one.size(), 1u);
    tokens.push_back(one[0]);
  }
  EXPECT_THAT(tokens, ElementsAre(1, 2));
  EXPECT_FALSE(Readable(fd, 0));
  queue.Wake();
  EXPECT_FALSE(Readable(fd, 0)) << "nothing stands in the queue";
  queue.Destroy();
  EXPECT_EQ(DescriptorsOf("[eventfd]"), before);
}

// Completions that stand before the descriptor is made show at once, and by the descriptor alone none is missed.
TEST(CompletionQueue, NoEndIsMissedByWhoPollsTheDescriptor) {
  const Pair pair("polled");
  const Queue queue;
  const weft_work_t ended[] = {pair.StartBarrier(0), pair.StartBarrier(1)};
  for (weft_work_t work : ended) {
    EXPECT_EQ(weft_work_wait(work, 0), WEFT_SUCCESS);
    queue.Add(work, 0);
  }
  int fd = -1;
  ASSERT_EQ(weft_completion_queue_fd(queue.get(), &fd), WEFT_SUCCESS) << weft_last_error();
  EXPECT_TRUE(Readable(fd, 0));
  EXPECT_EQ(queue.Poll().size(), 2u);
  std::thread other([&] {
    for (int round = 0; round < 500; ++round)
      pair.Barrier(1);
  });
  for (uint64_t round = 0; round < 500; ++round) {
    queue.Add(pair.StartBarrier(0), round);
    while (queue.Pending() > 0) {
      if (CallerDrives()) {
        EXPECT_EQ(weft_progress(nullptr), WEFT_SUCCESS);
        if (!Readable(fd, 0)) continue;
      }
      ASSERT_TRUE(Readable(fd, 20'000)) << "round " << round;
      EXPECT_THAT(queue.Poll(), ElementsAre(round));
    }
  }
  other.join();
}

TEST(CompletionQueue, TakesWorksOfBatches) {
  const Pair a("batch a");
  const Pair b("batch b");
  const Queue queue;
  EXPECT_EQ(weft_batch_begin(), WEFT_SUCCESS);
  const weft_work_t works[] = {a.StartBarrier(0), b.StartBarrier(0)};
  EXPECT_EQ(weft_completion_queue_add(queue.get(), works[0], 1), WEFT_BAD_STATE);
  EXPECT_EQ(weft_batch_end(), WEFT_SUCCESS) << weft_last_error();
  queue.Add(works[0], 1);
  queue.Add(works[1], 2);
  std::thread other([&] {
    b.Barrier(1);
    a.Barrier(1);
  });
  EXPECT_THAT(queue.WaitFor(2), UnorderedElementsAre(1, 2));
  other.join();
}

// A receive that waits for long does not keep a thread from the ends of collectives of its group.
TEST(CompletionQueue, TakesMessagesAndCollectivesOfOneGroup) {
  const Pair pair("mixed");
  const Queue queue;
  int received = 0;
  weft_work_t recv = nullptr;
  ASSERT_EQ(weft_recv(&received, 1, WEFT_INT32, 1, 0, nullptr, pair.ranks[0], nullptr, &recv),
            WEFT_SUCCESS)
      << weft_last_error();
  queue.Add(recv, 100);
  std::thread other([&] {
    for (int i = 0; i < 20; ++i)
      pair.Barrier(1);
  });
  for (uint64_t i = 0; i < 20; ++i) {
    queue.Add(pair.StartBarrier(0), i);
    EXPECT_THAT(queue.Wait(), ElementsAre(i));
  }
  other.join();
  const int sent = 42;
  EXPECT_EQ(weft_send(&sent, 1, WEFT_INT32, 0, 0, pair.ranks[1], nullptr, nullptr), WEFT_SUCCESS)
      << weft_last_error();
  EXPECT_THAT(queue.Wait(), ElementsAre(100));
  EXPECT_EQ(received, 42);
}

// Rank 1 takes the groups in another order than rank 0 waits for them; and of one rank 0 has no work in the queue.
TEST(CompletionQueue, AWaitMovesTheGroupsThatPeersWaitFor) {
  const Pair a("a");
  const Pair b("b");
  const Pair c("c");
  const Queue queue;
  std::vector<int> large(1'000'003, 1);
  std::vector<int> elsewhere(1'000'003, 1);
  queue.Add(StartSum(a.ranks[0], large), 1);
  queue.Add(b.StartBarrier(0), 2);
  const weft_work_t other_work = StartSum(c.ranks[0], elsewhere);
  std::thread other([&] {
    std::vector<int> x(elsewhere.size(), 2);
    EXPECT_EQ(weft_all_reduce(x.data(), x.data(), x.size(), WEFT_INT32, WEFT_SUM, c.ranks[1],
                              nullptr, nullptr),
              WEFT_SUCCESS)
        << weft_last_error();
    b.Barrier(1);
    x.assign(large.size(), 2);
    EXPECT_EQ(weft_all_reduce(x.data(), x.data(), x.size(), WEFT_INT32, WEFT_SUM, a.ranks[1],
                              nullptr, nullptr),
              WEFT_SUCCESS)
        << weft_last_error();
  });
  EXPECT_THAT(queue.WaitFor(2), UnorderedElementsAre(1, 2));
  other.join();
  EXPECT_EQ(weft_work_wait(other_work, 0), WEFT_SUCCESS);
  EXPECT_EQ(weft_work_free(other_work), WEFT_SUCCESS);
  EXPECT_EQ(large, std::vector<int>(large.size(), 3));
  EXPECT_EQ(elsewhere, std::vector<int>(elsewhere.size(), 3));
}

// Works of more groups than a waiting thread looks at in one go.
TEST(CompletionQueue, TakesWorksOfManyGroups) {
  constexpr size_t kGroups = 20;
  const weft_group_config_t config = ConfigNamed("many", kPatienceNs);
  std::vector<weft_group_t> groups(2 * kGroups);
  for (size_t i = 0; i < kGroups; ++i)
    ASSERT_EQ(weft_group_create_local(2, &config, &groups[2 * i]), WEFT_SUCCESS);
  const Queue queue;
  for (int round = 0; round < 3; ++round) {
    std::thread other([&] {
      for (size_t i = kGroups; i > 0; --i)
        EXPECT_EQ(weft_barrier(groups[2 * i - 1], nullptr, nullptr), WEFT_SUCCESS);
    });
    for (size_t i = 0; i < kGroups; ++i) {
      weft_work_t work = nullptr;
      ASSERT_EQ(weft_barrier(groups[2 * i], nullptr, &work), WEFT_SUCCESS) << weft_last_error();
      queue.Add(work, i);
    }
    EXPECT_EQ(queue.WaitFor(kGroups).size(), kGroups);
    other.join();
  }
  for (weft_group_t group : groups)
    EXPECT_EQ(weft_group_destroy(group), WEFT_SUCCESS);
}

}  // namespace
}  // namespace weft::test
