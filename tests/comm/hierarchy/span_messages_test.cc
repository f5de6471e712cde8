// Messages over a network in memory whose deliveries a seed orders, with ranks as threads: what is matched with what, against a slow and
// obvious reference; and what is remembered of messages that nobody receives.
#include "comm/hierarchy/span_messages.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/mutex.h"
#include "base/text.h"
#include "base/wait.h"
#include "comm/hierarchy/span_message_failure.h"
#include "comm/transport/memory_network.h"
#include "tests/support/case_sample.h"

namespace weft::test::span_messages_test {
namespace {

constexpr int64_t kLimitNs = 60'000'000'000;
constexpr uint64_t kGroup = 5;

// A rank's half of a message, and its memory.
struct Half {
  Half(const Message& of, uint64_t content_seed) : bytes(of.count), message(With(of), 0) {
    for (size_t i = 0; i < bytes.size() && of.is_send; ++i)
      bytes[i] = static_cast<std::byte>(content_seed * 31 + i * 7 + i / 251);
  }

  Message With(Message of) {
    of.in = of.is_send ? bytes.data() : nullptr;
    of.out = of.is_send ? nullptr : bytes.data();
    return of;
  }

  std::vector<std::byte> bytes;
  SpanMessage message;
};

Message SendTo(int peer, uint64_t tag, size_t count, weft_dtype_t dtype = WEFT_UINT8) {
  return {.is_send = true, .count = count, .dtype = dtype, .peer = peer, .tag = tag};
}

Message ReceiveFrom(int peer, uint64_t tag, size_t count, weft_dtype_t dtype = WEFT_UINT8) {
  return {.count = count, .dtype = dtype, .peer = peer, .tag = tag};
}

// The ranks of a group on one network, stepped by whoever calls.
class Ranks {
 public:
  Ranks(int size, uint64_t seed) : network_(size, seed), peers_(static_cast<size_t>(size)) {
    std::iota(peers_.begin(), peers_.end(), 0);
    for (int rank = 0; rank < size; ++rank) {
      transports_.push_back(network_.Join(rank));
      messages_.push_back(
          std::make_unique<SpanMessages>(SpanMessages::Route{.transport = transports_.back().get(),
                                                             .peers = peers_,
                                                             .group_id = kGroup,
                                                             .rank = rank}));
    }
  }

  ~Ranks() {
    for (const auto& transport : transports_)
      transport->CloseGroup(kGroup);
    for (const auto& messages : messages_)
      messages->GiveUpAll();
  }

  SpanMessages& operator[](int rank) { return *messages_[static_cast<size_t>(rank)]; }

  Transport& transport(int rank) { return *transports_[static_cast<size_t>(rank)]; }

  // Any thread.
  Half* Issue(int rank, const Message& message, uint64_t content_seed = 0) {
    auto owned = std::make_unique<Half>(message, content_seed);
    Half* const half = owned.get();
    {
      MutexLock lock(mutex_);
      halves_.push_back(std::move(owned));
    }
    (*this)[rank].Issue(&half->message);
    return half;
  }

  void Step(int rank) {
    (*this)[rank].Step();
    transport(rank).Advance();
  }

  void StepAll(int rounds) {
    for (int round = 0; round < rounds; ++round) {
      for (size_t rank = 0; rank < messages_.size(); ++rank)
        Step(static_cast<int>(rank));
    }
  }

  template <typename Done>
  bool Until(const Done& done) {
    const int64_t until_ns = MonotonicNs() + kLimitNs;
    while (!done()) {
      if (MonotonicNs() > until_ns) return false;
      StepAll(1);
    }
    return true;
  }

 private:
  Mutex mutex_;
  std::vector<std::unique_ptr<Half>> halves_ WEFT_GUARDED_BY(mutex_);
  MemoryNetwork network_;
  std::vector<int> peers_;
  std::vector<std::unique_ptr<Transport>> transports_;
  std::vector<std::unique_ptr<SpanMessages>> messages_;
};

// --- Random traffic ------------------------------------------------------------------------------

constexpr size_t kSizes[] = {0, 1, 17, 4095, 4096, 4097, 8192, 8193, 70'001, (1 << 20) + 3};

// Receives of tags from here on are from any source, and of one size.
constexpr uint64_t kAnyTags = 100;

struct Planned {
  int source;
  int destination;
  uint64_t tag;
  size_t bytes;
  uint64_t content;
};

// What all ranks do, each in the order of the list.
std::vector<Planned> PlanTraffic(int size, int messages, std::mt19937_64* random) {
  std::vector<Planned> plan;
  for (int i = 0; i < messages; ++i) {
    const auto ranks = static_cast<uint64_t>(size);
    const bool any = (*random)() % 3 == 0;
    const uint64_t tag = (any ? kAnyTags : 0) + (*random)() % 4;
    // Large ones are rare.
    const size_t choice = (*random)() % 40;
    const size_t bytes =
        any ? kSizes[tag % kAnyTags * 2] : kSizes[choice < 10 ? choice : choice % 7];
    plan.push_back({.source = static_cast<int>((*random)() % ranks),
                    .destination = static_cast<int>((*random)() % ranks),
                    .tag = tag,
                    .bytes = bytes,
                    .content = static_cast<uint64_t>(i) + 1});
  }
  return plan;
}

bool HasContent(const Half& half, const Planned& planned) {
  return half.bytes == Half(SendTo(0, 0, planned.bytes), planned.content).bytes;
}

// Receives that are named get the messages of their sender and tag in its order; those from any source get each message once, those
// of one sender in its order.
std::string CheckReceives(int rank, const std::vector<Planned>& plan,
                          const std::vector<Half*>& receives) {
  std::map<std::pair<int, uint64_t>, std::vector<const Planned*>> sent;  // by source and tag
  for (const Planned& planned : plan) {
    if (planned.destination == rank) sent[{planned.source, planned.tag}].push_back(&planned);
  }
  std::map<std::pair<int, uint64_t>, size_t> received;
  for (const Half* const receive : receives) {
    const Message& message = receive->message.message;
    const int source = receive->message.source;
    if (message.peer != WEFT_ANY_SOURCE && source != message.peer) return "another source";
    const std::pair<int, uint64_t> key{source, message.tag};
    const size_t number = received[key]++;
    if (number >= sent[key].size()) return StrCat("too many from rank ", source);
    if (!HasContent(*receive, *sent[key][number])) {
      return StrCat("message ", number, " from rank ", source, " with tag ", message.tag,
                    " is another one");
    }
  }
  return "";
}

// One rank of a group: issues its sends and its receives in their orders, interleaved by chance, until all have ended.
std::string RunRank(Ranks& ranks, int rank, const std::vector<Planned>& plan, uint64_t seed,
                    std::atomic<int>* unfinished) {
  std::mt19937_64 random(seed);
  std::vector<const Planned*> sends;
  std::vector<const Planned*> arrivals;
  for (const Planned& planned : plan) {
    if (planned.source == rank) sends.push_back(&planned);
    if (planned.destination == rank) arrivals.push_back(&planned);
  }
  // Of what comes with one tag from one sender all receives are alike but for their sizes: so only others may change places.
  std::stable_sort(arrivals.begin(), arrivals.end(), [seed](const Planned* a, const Planned* b) {
    const auto place = [seed](const Planned* planned) {
      const auto source = planned->tag < kAnyTags ? static_cast<uint64_t>(planned->source) : 0;
      return std::mt19937_64(seed + planned->tag * 64 + source)();
    };
    return place(a) % 3 < place(b) % 3;
  });
  std::vector<Half*> sent;
  std::vector<Half*> received;
  const auto ended = [](const Half* half) {
    return half->message.done;
  };
  const int64_t until_ns = MonotonicNs() + kLimitNs;
  while (MonotonicNs() < until_ns) {
    if (sent.size() < sends.size() && random() % 2 == 0) {
      const Planned& next = *sends[sent.size()];
      sent.push_back(
          ranks.Issue(rank, SendTo(next.destination, next.tag, next.bytes), next.content));
    }
    if (received.size() < arrivals.size() && random() % 2 == 0) {
      const Planned& next = *arrivals[received.size()];
      const int source = next.tag < kAnyTags ? next.source : WEFT_ANY_SOURCE;
      received.push_back(ranks.Issue(rank, ReceiveFrom(source, next.tag, next.bytes)));
    }
    ranks.Step(rank);
    if (sent.size() == sends.size() && received.size() == arrivals.size() &&
        std::all_of(sent.begin(), sent.end(), ended) &&
        std::all_of(received.begin(), received.end(), ended)) {
      break;
    }
  }
  unfinished->fetch_sub(1);
  while (unfinished->load() > 0 && MonotonicNs() < until_ns)
    ranks.Step(rank);
  if (ranks[rank].failed() != nullptr) return "a mismatch";
  const auto open = std::count_if(sent.begin(), sent.end(), std::not_fn(ended)) +
                    std::count_if(received.begin(), received.end(), std::not_fn(ended));
  if (open > 0 || MonotonicNs() >= until_ns) return StrCat(open, " have not ended");
  return CheckReceives(rank, plan, received);
}

TEST(SpanMessages, AreMatchedInTheOrderOfIssueWhateverTheOrderOfTheirDelivery) {
  const uint64_t first_seed = FirstSeedToTry(1);
  for (uint64_t seed = first_seed; seed < first_seed + 12; ++seed) {
    const int size = std::array{1, 2, 3, 5}[seed % 4];
    SCOPED_TRACE(StrCat("WEFT_TEST_SEED=", seed, ", ", size, " ranks"));
    std::mt19937_64 random(seed);
    const std::vector<Planned> plan = PlanTraffic(size, 60 * size, &random);
    Ranks ranks(size, seed % 3 == 0 ? 0 : seed);
    std::atomic<int> unfinished{size};
    std::vector<std::string> problems(static_cast<size_t>(size));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size; ++rank) {
      threads.emplace_back([&, rank, own_seed = random()] {
        problems[static_cast<size_t>(rank)] = RunRank(ranks, rank, plan, own_seed, &unfinished);
      });
    }
    for (std::thread& thread : threads)
      thread.join();
    for (int rank = 0; rank < size; ++rank)
      ASSERT_EQ(problems[static_cast<size_t>(rank)], "") << "rank " << rank;
  }
}

// --- One rule each -------------------------------------------------------------------------------

TEST(SpanMessages, AReceiveFromAnySourceComesBeforeNamedOnesThatWereIssuedAfterIt) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    for (const bool sends_first : {false, true}) {
      SCOPED_TRACE(StrCat("seed ", seed));
      Ranks ranks(3, seed);
      std::vector<Half*> sends;
      std::vector<Half*> receives;
      const auto send = [&] {
        sends.push_back(ranks.Issue(1, SendTo(0, 7, 100), 1));
        sends.push_back(ranks.Issue(1, SendTo(0, 7, 100), 2));
        sends.push_back(ranks.Issue(1, SendTo(0, 8, 100), 3));
      };
      if (sends_first) {
        send();
        ranks.StepAll(10);
      }
      receives.push_back(ranks.Issue(0, ReceiveFrom(WEFT_ANY_SOURCE, 7, 100)));
      receives.push_back(ranks.Issue(0, ReceiveFrom(1, 7, 100)));
      receives.push_back(ranks.Issue(0, ReceiveFrom(WEFT_ANY_SOURCE, 8, 100)));
      if (!sends_first) {
        ranks.StepAll(10);
        send();
      }
      ASSERT_TRUE(ranks.Until([&] {
        return std::all_of(receives.begin(), receives.end(),
                           [](const Half* receive) { return receive->message.done; });
      }));
      for (size_t i = 0; i < receives.size(); ++i) {
        EXPECT_EQ(receives[i]->message.source, 1);
        EXPECT_TRUE(receives[i]->bytes == sends[i]->bytes) << i;
      }
    }
  }
}

TEST(SpanMessages, ASmallSendNeedsNoReceiveAndALargeOneEndsWhenItWasReceived) {
  Ranks ranks(2, 0);
  for (const int destination : {0, 1}) {
    Half* const large = ranks.Issue(0, SendTo(destination, 1, WEFT_EAGER_BYTES + 1), 4);
    ranks.StepAll(20);
    EXPECT_FALSE(large->message.done);
    const Half* const receive = ranks.Issue(destination, ReceiveFrom(0, 1, WEFT_EAGER_BYTES + 1));
    ASSERT_TRUE(ranks.Until([&] { return large->message.done && receive->message.done; }));
    EXPECT_TRUE(large->bytes == receive->bytes);
  }
  // To oneself, and the memory is used again.
  Half* const small = ranks.Issue(0, SendTo(0, 2, WEFT_EAGER_BYTES), 5);
  ASSERT_TRUE(small->message.done);
  const std::vector<std::byte> sent = small->bytes;
  std::fill(small->bytes.begin(), small->bytes.end(), std::byte{0});
  const Half* const receive = ranks.Issue(0, ReceiveFrom(WEFT_ANY_SOURCE, 2, WEFT_EAGER_BYTES));
  ASSERT_TRUE(receive->message.done);
  EXPECT_EQ(receive->message.source, 0);
  EXPECT_TRUE(receive->bytes == sent);
}

TEST(SpanMessages, ToOneselfThereIsABoundOfCopiesAndTheOrderIsKept) {
  Ranks ranks(1, 0);
  std::vector<Half*> sends;
  for (uint64_t i = 0; i < 300; ++i)
    sends.push_back(ranks.Issue(0, SendTo(0, 1, WEFT_EAGER_BYTES), i));
  EXPECT_TRUE(sends[255]->message.done);
  EXPECT_FALSE(sends[256]->message.done);
  for (uint64_t i = 0; i < 300; ++i) {
    const Half* const receive = ranks.Issue(0, ReceiveFrom(0, 1, WEFT_EAGER_BYTES));
    ASSERT_TRUE(receive->message.done);
    ASSERT_TRUE(receive->bytes == sends[i]->bytes) << i;
  }
  EXPECT_TRUE(sends.back()->message.done);
  ranks.StepAll(1);
}

// More than the transport is given at a time, received from the last tag to the first of what it has.
TEST(SpanMessages, ManyThatNobodyReceivesYetHoldUpNoOthers) {
  Ranks ranks(2, 0);
  std::vector<Half*> sends;
  constexpr size_t kMany = kSpanSendsMax + 10;
  for (uint64_t i = 0; i < kMany; ++i)
    sends.push_back(ranks.Issue(0, SendTo(1, i, 3), i));
  std::vector<Half*> receives(kMany);
  const auto receive = [&](uint64_t tag) {
    receives[tag] = ranks.Issue(1, ReceiveFrom(0, tag, 3));
    return ranks.Until([&] { return receives[tag]->message.done; });
  };
  for (uint64_t tag = kSpanSendsMax; tag-- > kSpanSendsMax - 20;)
    ASSERT_TRUE(receive(tag));
  ASSERT_TRUE(receive(kMany - 1)) << "the window has moved on";
  for (uint64_t tag = 0; tag < 20; ++tag)
    ASSERT_TRUE(receive(tag));
  for (uint64_t tag = 0; tag < kMany; ++tag) {
    if (receives[tag] == nullptr) continue;
    ASSERT_TRUE(receives[tag]->bytes == sends[tag]->bytes) << tag;
  }
}

TEST(SpanMessages, AnotherCountOrTypeIsFoundOnBothSides) {
  for (const size_t count : {size_t{10}, size_t{100'000}}) {
    for (const bool other_type : {false, true}) {
      for (const bool to_self : {false, true}) {
        SCOPED_TRACE(StrCat(count, " elements, ", other_type, to_self));
        Ranks ranks(2, 0);
        const int destination = to_self ? 0 : 1;
        (void)ranks.Issue(0, SendTo(destination, 7, count));
        const Half* const receive =
            ranks.Issue(destination, ReceiveFrom(WEFT_ANY_SOURCE, 7, count + (other_type ? 0 : 1),
                                                 other_type ? WEFT_INT8 : WEFT_UINT8));
        ASSERT_TRUE(ranks.Until([&] {
          return ranks[destination].failed() != nullptr &&
                 (to_self || ranks[0].failed() != nullptr);
        }));
        const SpanMessage& failed = *ranks[destination].failed();
        EXPECT_EQ(&failed, &receive->message);
        EXPECT_FALSE(failed.done);
        const std::string here =
            StrCat(count + (other_type ? 0 : 1), other_type ? " int8" : " uint8");
        EXPECT_EQ(
            DifferentMessage(failed, {.rank = 0, .group = "g"}, destination).message(),
            StrCat("recv on group g: rank 0 sent ", count, " uint8 with tag 7, rank ", destination,
                   " expects ", here, "; both sides must name the same count and type"));
        if (to_self) continue;
        EXPECT_EQ(
            DifferentMessage(*ranks[0].failed(), {.rank = 1, .group = "g"}, 0).message(),
            StrCat("send on group g: rank 0 sent ", count, " uint8 with tag 7, rank 1 expects ",
                   here, "; both sides must name the same count and type"));
      }
    }
  }
}

TEST(SpanMessages, WhoIsLateOrCutOffIsKnown) {
  Ranks ranks(3, 0);
  SpanMessage any(ReceiveFrom(WEFT_ANY_SOURCE, 1, 0), 1000);
  SpanMessage named(ReceiveFrom(2, 2, 0), 500);
  ranks[0].Issue(&any);
  ranks[0].Issue(&named);
  ranks.StepAll(3);
  EXPECT_EQ(ranks[0].Late(499), nullptr);
  EXPECT_EQ(ranks[0].Late(500), &named);
  EXPECT_EQ(ranks[0].Late(1000), &any);
  EXPECT_EQ(ranks[0].Awaiting(1), nullptr) << "another rank may send one";
  EXPECT_EQ(ranks[0].Awaiting(2), &named);
  (void)ranks.Issue(2, SendTo(0, 2, 0));
  ASSERT_TRUE(ranks.Until([&] { return named.done; }));
  EXPECT_EQ(ranks[0].Awaiting(2), nullptr);
  // Matched: now it needs that rank.
  (void)ranks.Issue(1, SendTo(0, 1, 0));
  ASSERT_TRUE(ranks.Until([&] { return any.done; }));
  EXPECT_EQ(any.source, 1);
}

TEST(SpanMessages, WhatIsGivenUpIsTouchedNoMore) {
  Ranks ranks(2, 0);
  const Half* const send = ranks.Issue(0, SendTo(1, 1, 50'000), 1);
  ranks.StepAll(5);
  ranks.transport(0).CloseGroup(kGroup);
  ranks[0].GiveUpAll();
  EXPECT_FALSE(send->message.done);
  EXPECT_EQ(ranks[0].Late(INT64_MAX), nullptr);
  const Half* const receive = ranks.Issue(1, ReceiveFrom(0, 1, 50'000));
  ranks.StepAll(5);
  EXPECT_FALSE(receive->message.done);
}

}  // namespace
}  // namespace weft::test::span_messages_test
