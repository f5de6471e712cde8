// What only shared memory meets: rings that are full, sleepers, processes that are killed while they write, memory that says nonsense.
#include "comm/transport/shared_memory_transport.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/net.h"
#include "base/seams.h"
#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"
#include "tests/support/case_sample.h"
#include "tests/support/forked_ranks.h"
#include "tests/support/kill_within.h"
#include "tests/support/shared_value.h"

namespace weft::test::shared_memory_transport_test {
namespace {

constexpr uint64_t kGroup = 5;
constexpr int64_t kLimitNs = 30'000'000'000;

// Memory that forked processes share.
class Island {
 public:
  explicit Island(int size)
      : size_(size),
        bytes_(SharedMemoryTransport::BytesFor(size)),
        memory_(static_cast<std::byte*>(
            mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {
    std::memset(memory_, 0xa5, bytes_);
    SharedMemoryTransport::Clear(memory_, size);
  }

  Island(const Island&) = delete;
  Island& operator=(const Island&) = delete;

  ~Island() { munmap(memory_, bytes_); }

  std::unique_ptr<SharedMemoryTransport> Join(int rank) const {
    std::vector<int> ranks;
    for (int other = 0; other < size_; ++other)
      ranks.push_back(other);
    auto made = SharedMemoryTransport::Make(SystemSeams(),
                                            {.memory = memory_, .ranks = ranks, .self = rank});
    EXPECT_TRUE(made.ok()) << made.status();
    return *std::move(made);
  }

  std::byte* memory() const { return memory_; }

 private:
  const int size_;
  const size_t bytes_;
  std::byte* const memory_;
};

Transfer TransferOf(int peer, uint64_t sequence, bool is_send, std::vector<std::byte>* memory,
                    uint64_t group = kGroup) {
  return {.peer = peer,
          .stream = {.group_id = group, .sequence = sequence},
          .signature = 77,
          .is_send = is_send,
          .memory = memory->data(),
          .bytes = memory->size()};
}

void Fill(std::vector<std::byte>* bytes, uint64_t seed) {
  std::mt19937_64 random(seed);
  for (std::byte& byte : *bytes)
    byte = static_cast<std::byte>(random());
}

TEST(SharedMemoryTransport, TheMemoryOfAllRingsHasABound) {
  for (int size = 1; size <= SharedMemoryTransport::kRanksMax; ++size)
    EXPECT_LE(SharedMemoryTransport::BytesFor(size), size_t{18} << 20) << size;
  std::vector<int> many(65);
  const auto made = SharedMemoryTransport::Make(SystemSeams(), {.ranks = many});
  EXPECT_EQ(ResultOf(made.status()), WEFT_UNSUPPORTED);
}

// Sleeps on nothing but the items, for so long that a ring that was lost is seen.
struct Sleeper {
  static constexpr int64_t kTooLongNs = 10'000'000'000;

  Transport& transport;
  int naps = 0;

  bool Until(const std::vector<Transfer*>& transfers) {
    const auto ended = [&] {
      return std::all_of(transfers.begin(), transfers.end(), [](const Transfer* transfer) {
        return transfer->state() != TransferState::kPosted;
      });
    };
    while (true) {
      while (transport.Advance()) {
      }
      if (ended()) return true;
      std::vector<PollItem> items;
      transport.AppendPollItems(&items);
      const int64_t until_ns = MonotonicNs() + kTooLongNs;
      (void)SystemSeams().net->Poll(items, until_ns);
      ++naps;
      if (MonotonicNs() >= until_ns) return false;
    }
  }
};

// Both ranks send and wait for each other in turns, and sleep whenever there is nothing to do.
std::string PingPong(const Island& island, int rank, int rounds, uint64_t seed) {
  const auto transport = island.Join(rank);
  Sleeper sleeper{*transport};
  std::mt19937_64 random(seed);  // alike on both
  constexpr size_t kSizes[] = {0, 1, 8, 63, 4095, 4097, 70'000, (1 << 20) + 3};
  for (int round = 1; round <= rounds; ++round) {
    std::vector<std::byte> from(random() % 50 == 0 ? kSizes[random() % 8] : kSizes[random() % 5]);
    std::vector<std::byte> to(from.size());
    const auto sequence = static_cast<uint64_t>(round);
    const bool both = random() % 3 == 0;
    const bool first = (random() % 2 == 0) == (rank == 0);
    Transfer send = TransferOf(1 - rank, sequence, true, &from);
    Transfer receive = TransferOf(1 - rank, sequence, false, &to);
    Fill(&from, sequence * 2 + static_cast<uint64_t>(rank));
    if (first || both) transport->Post(&send);
    if (!both && first && !sleeper.Until({&send})) return StrCat("no ring of round ", round);
    transport->Post(&receive);
    if (!both && !first && !sleeper.Until({&receive})) return StrCat("no ring of round ", round);
    if (!first && !both) transport->Post(&send);
    if (!sleeper.Until({&send, &receive})) return StrCat("no ring of round ", round);
    Fill(&from, sequence * 2 + static_cast<uint64_t>(1 - rank));
    if (from != to) return StrCat("other bytes in round ", round);
  }
  return "";
}

TEST(SharedMemoryTransport, NoRingIsLostBetweenThreadsThatSleep) {
  const uint64_t seed = FirstSeedToTry(1);
  SCOPED_TRACE(StrCat("WEFT_TEST_SEED=", seed));
  const Island island(2);
  std::string problems[2];
  std::thread other([&] { problems[1] = PingPong(island, 1, 3000, seed); });
  problems[0] = PingPong(island, 0, 3000, seed);
  other.join();
  EXPECT_EQ(problems[0], "");
  EXPECT_EQ(problems[1], "");
}

TEST(SharedMemoryTransport, NoRingIsLostBetweenProcessesThatSleep) {
  const uint64_t seed = FirstSeedToTry(1);
  SCOPED_TRACE(StrCat("WEFT_TEST_SEED=", seed));
  const Island island(2);
  for (const RankEnd& end :
       RunForkedRanks(2, 60, [&](int rank) { return PingPong(island, rank, 10'000, seed); })) {
    EXPECT_EQ(end.Problem(), "");
  }
}

// One thread of a rank sleeps, another one takes what comes and goes to sleep as well: the next ring wakes the first one, too.
TEST(SharedMemoryTransport, WhoWorksBesideASleeperLeavesItsRings) {
  const Island island(2);
  const auto left = island.Join(0);
  const auto right = island.Join(1);
  for (uint64_t round = 1; round <= 20; ++round) {
    std::atomic<bool> armed{false};
    std::atomic<bool> woken{false};
    std::thread sleeper([&] {
      std::vector<PollItem> items;
      right->AppendPollItems(&items);
      armed.store(true);
      const int64_t until_ns = MonotonicNs() + kLimitNs;
      while (!items[0].readable && MonotonicNs() < until_ns)
        (void)SystemSeams().net->Poll(items, until_ns);
      woken.store(items[0].readable);
    });
    while (!armed.load())
      sched_yield();
    std::vector<PollItem> others;
    right->AppendPollItems(&others);
    EXPECT_FALSE(right->Advance());
    std::vector<std::byte> bytes(100);
    std::vector<std::byte> to(100);
    Transfer send = TransferOf(1, round, true, &bytes);
    Transfer receive = TransferOf(0, round, false, &to);
    right->Post(&receive);
    left->Post(&send);
    left->Advance();
    right->Advance();
    EXPECT_EQ(receive.state(), TransferState::kDone);
    sleeper.join();
    EXPECT_TRUE(woken.load());
    while (left->Advance() || right->Advance()) {
    }
  }
}

TEST(SharedMemoryTransport, WhatCameBeforeTheSleepIsReadyAtOnce) {
  const Island island(2);
  const auto left = island.Join(0);
  const auto right = island.Join(1);
  std::vector<std::byte> bytes(100);
  Transfer send = TransferOf(1, 1, true, &bytes);
  left->Post(&send);
  left->Advance();
  std::vector<PollItem> items;
  right->AppendPollItems(&items);
  ASSERT_EQ(items.size(), 1u);
  (void)SystemSeams().net->Poll(items, MonotonicNs() + kLimitNs);
  EXPECT_TRUE(items[0].readable || items[0].writable);
  EXPECT_TRUE(right->Advance());
}

// A receiver that takes nothing: the sender fills the ring and no more, and large messages wait for their receives.
TEST(SharedMemoryTransport, ASlowReceiverCostsTheSenderAFullRingAtMost) {
  const Island island(3);
  const auto sender = island.Join(0);
  const auto slow = island.Join(1);
  const auto quick = island.Join(2);
  std::vector<std::vector<std::byte>> from;
  std::vector<std::vector<std::byte>> to;
  for (uint64_t i = 0; i < 40; ++i) {
    from.emplace_back(i % 2 == 0 ? 500'000 : 5000);
    to.emplace_back(from.back().size());
    Fill(&from.back(), i);
  }
  std::vector<Transfer> sends;
  std::vector<Transfer> receives;
  for (uint64_t i = 0; i < 40; ++i) {
    sends.push_back(TransferOf(1, i + 1, true, &from[i]));
    receives.push_back(TransferOf(0, i + 1, false, &to[i]));
  }
  for (size_t i = 0; i < 40; ++i) {
    slow->Post(&receives[i]);
    sender->Post(&sends[i]);
  }
  while (slow->Advance()) {
  }
  for (int round = 0; round < 1000; ++round)
    sender->Advance();
  std::vector<std::byte> more(1'000'000);
  std::vector<std::byte> taken(more.size());
  Transfer passing = TransferOf(2, 100, true, &more);
  Transfer taking = TransferOf(0, 100, false, &taken);
  sender->Post(&passing);
  quick->Post(&taking);
  const int64_t until_ns = MonotonicNs() + kLimitNs;
  while (taking.state() == TransferState::kPosted && MonotonicNs() < until_ns) {
    sender->Advance();
    quick->Advance();
  }
  EXPECT_EQ(taking.state(), TransferState::kDone);
  const auto done = [&] {
    return std::all_of(receives.begin(), receives.end(), [](const Transfer& receive) {
      return receive.state() == TransferState::kDone;
    });
  };
  EXPECT_FALSE(done());
  while (!done() && MonotonicNs() < until_ns) {
    slow->Advance();
    sender->Advance();
  }
  EXPECT_TRUE(done());
  EXPECT_TRUE(from == to);
}

// Rank 1 dies while it sends to all others, who close the group it was in when they know, and go on in another one.
TEST(SharedMemoryTransport, AProcessThatIsKilledWhileItWritesHoldsUpNobody) {
  const uint64_t seed = FirstSeedToTry(1);
  SCOPED_TRACE(StrCat("WEFT_TEST_SEED=", seed));
  std::mt19937_64 random(seed);
  for (int attempt = 0; attempt < 8; ++attempt) {
    const int size = attempt % 2 == 0 ? 3 : 7;
    const Island island(size);

    struct Shared {
      std::atomic<int64_t> killed_ns{0};
      std::atomic<int> joined{0};
      std::atomic<int> through{0};
    };

    const SharedValue<Shared> shared;
    const auto kill_us = static_cast<int64_t>(1000 + random() % 20'000);
    const auto ends = RunForkedRanks(size, 60, [&](int rank) -> std::string {
      const auto transport = island.Join(rank);
      shared->joined.fetch_add(1);
      if (rank == 1) KillWithin(&shared->killed_ns, kill_us);
      const int64_t until_ns = MonotonicNs() + kLimitNs;
      std::vector<std::vector<std::byte>> memory;
      std::vector<std::unique_ptr<Transfer>> transfers;
      for (uint64_t sequence = 1; shared->killed_ns.load() == 0; ++sequence) {
        if (MonotonicNs() > until_ns) return "nobody was killed";
        memory.clear();
        transfers.clear();
        for (int other = 0; other < size; ++other) {
          if (other == rank || (rank != 1 && other != 1)) continue;
          for (const bool is_send : {true, false}) {
            memory.emplace_back(sequence % 3 == 0 ? 700'001 : 4097);
            transfers.push_back(
                std::make_unique<Transfer>(TransferOf(other, sequence, is_send, &memory.back())));
            transport->Post(transfers.back().get());
          }
        }
        const auto ended = [&] {
          return std::all_of(transfers.begin(), transfers.end(), [](const auto& transfer) {
            return transfer->state() != TransferState::kPosted;
          });
        };
        while (!ended() && shared->killed_ns.load() == 0)
          transport->Advance();
      }
      transport->CloseGroup(kGroup);
      for (const auto& transfer : transfers) {
        if (transfer->state() == TransferState::kPosted) return "still posted";
      }
      // Among those that live.
      std::vector<std::byte> from(100'000, std::byte{7});
      std::vector<std::byte> to(from.size());
      int next = (rank + 1) % size;
      if (next == 1) next = 2;
      int before = (rank + size - 1) % size;
      if (before == 1) before = 0;
      Transfer send = TransferOf(next, 1, true, &from, kGroup + 1);
      Transfer receive = TransferOf(before, 1, false, &to, kGroup + 1);
      transport->Post(&receive);
      transport->Post(&send);
      while (receive.state() == TransferState::kPosted || send.state() == TransferState::kPosted) {
        if (MonotonicNs() > until_ns) return "the others do not go on";
        transport->Advance();
      }
      shared->through.fetch_add(1);
      while (shared->through.load() < size - 1 && MonotonicNs() < until_ns)
        transport->Advance();
      return from == to ? "" : "other bytes";
    });
    for (int rank = 0; rank < size; ++rank) {
      const RankEnd& end = ends[static_cast<size_t>(rank)];
      if (rank == 1) {
        EXPECT_TRUE(WIFSIGNALED(end.wait_status));
      } else {
        EXPECT_EQ(end.Problem(), "") << "rank " << rank << ", killed after " << kill_us << " us";
      }
    }
  }
}

// Whoever rings for a process that has gone finds no socket.
TEST(SharedMemoryTransport, ARankWhoseProcessHasGoneIsLostOnceSomebodyRings) {
  const Island island(2);
  const SharedValue<std::atomic<int>> ready;
  const auto transport = island.Join(0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto own = island.Join(1).release();
    std::vector<PollItem> items;
    own->AppendPollItems(&items);
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  std::vector<std::byte> bytes(100);
  Transfer send = TransferOf(1, 1, true, &bytes);
  Transfer receive = TransferOf(1, 2, false, &bytes);
  transport->Post(&send);
  transport->Post(&receive);
  transport->Advance();
  transport->Advance();
  const std::vector<LinkEvent> events = transport->TakeEvents();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(ResultOf(events[0].why), WEFT_UNREACHABLE) << events[0].why;
  EXPECT_EQ(receive.state(), TransferState::kPosted) << "an event is no verdict";
  transport->CloseGroup(kGroup);
  EXPECT_EQ(receive.state(), TransferState::kRetracted);
}

TEST(SharedMemoryTransport, WhoHasLeftTouchesNothingThoughItIsMoved) {
  std::vector<std::byte> bytes(100);
  Transfer send = TransferOf(1, 1, true, &bytes);
  std::unique_ptr<SharedMemoryTransport> left;
  {
    const Island island(2);
    left = island.Join(0);
    const auto right = island.Join(1);
    left->Leave();
    right->Advance();
    EXPECT_EQ(right->TakeEvents().size(), 1u);
  }
  // The memory is gone.
  EXPECT_FALSE(left->Advance());
  left->Post(&send);
  EXPECT_EQ(send.state(), TransferState::kRetracted);
  left->CloseGroup(kGroup);
  std::vector<PollItem> items;
  left->AppendPollItems(&items);
  EXPECT_TRUE(items.empty());
}

// A child has neither the memory nor a say.
TEST(SharedMemoryTransport, AForkedChildLeavesNothing) {
  const Island island(2);
  auto left = island.Join(0);
  auto right = island.Join(1);
  madvise(island.memory(), SharedMemoryTransport::BytesFor(2), MADV_DONTFORK);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    left.reset();
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  right->Advance();
  EXPECT_TRUE(right->TakeEvents().empty());
  left.reset();
  right->Advance();
  EXPECT_EQ(right->TakeEvents().size(), 1u);
}

TEST(SharedMemoryTransport, MemoryThatSaysNonsenseIsALostLink) {
  const uint64_t seed = FirstSeedToTry(1);
  SCOPED_TRACE(StrCat("WEFT_TEST_SEED=", seed));
  for (uint64_t round = 0; round < 50; ++round) {
    std::mt19937_64 random(seed + round);
    const Island island(2);
    const auto left = island.Join(0);
    const auto right = island.Join(1);
    std::vector<std::byte> bytes(100'000);
    std::vector<std::byte> to(bytes.size());
    Transfer send = TransferOf(1, 1, true, &bytes);
    Transfer receive = TransferOf(0, 1, false, &to);
    left->Post(&send);
    right->Post(&receive);
    for (uint64_t step = random() % 4; step > 0; --step) {
      left->Advance();
      right->Advance();
    }
    // Not the names of sockets: these would wake somebody else.
    std::byte* const heads = island.memory() + 2 * sizeof(Doorbell::Place);
    const size_t count = SharedMemoryTransport::BytesFor(2) - 2 * sizeof(Doorbell::Place);
    for (size_t at = 0; at < count; at += 1 + random() % 64)
      heads[at] = static_cast<std::byte>(random());
    for (int step = 0; step < 50; ++step) {
      left->Advance();
      right->Advance();
      std::vector<PollItem> items;
      left->AppendPollItems(&items);
      right->AppendPollItems(&items);
    }
    left->CloseGroup(kGroup);
    right->CloseGroup(kGroup);
    EXPECT_NE(send.state(), TransferState::kPosted);
    EXPECT_NE(receive.state(), TransferState::kPosted);
  }
}

}  // namespace
}  // namespace weft::test::shared_memory_transport_test
