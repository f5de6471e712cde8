// Sends and receives with ranks as threads: contents, order of matching, progress whatever the order of
// the calls, and nothing left behind.
#include <atomic>
#include <cstdlib>
#include <map>
#include <new>
#include <numeric>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/status.h"
#include "base/wait.h"
#include "message_case.h"
#include "rank_threads.h"
#include "tests/support/case_sample.h"
#include "tests/support/leak_check.h"

#ifndef WEFT_SANITIZE
namespace {
thread_local size_t allocations = 0;
}  // namespace

// Counted, to see that the steady path makes none.
void* operator new(size_t bytes) {
  ++allocations;
  if (void* const block = std::malloc(bytes)) return block;
  throw std::bad_alloc();
}

void operator delete(void* block) noexcept {
  std::free(block);
}

void operator delete(void* block, size_t) noexcept {
  std::free(block);
}
#endif

namespace weft::test {
namespace {

// Sanitizers look for races and bad accesses, which a sample of the cases shows as well.
#ifdef WEFT_SANITIZE
constexpr int kTrafficMessages = 60;
constexpr int kManyMessages = 200;
constexpr int kProbedMessages = 8;
constexpr int kPingPongs = 200;
#else
constexpr int kTrafficMessages = 300;
constexpr int kManyMessages = 1000;
constexpr int kProbedMessages = 25;
constexpr int kPingPongs = 3000;
#endif

constexpr size_t kEager = WEFT_EAGER_BYTES;
constexpr int64_t kTimeoutNs = 60'000'000'000;

class ThreadRanks : public ::testing::TestWithParam<int> {
 protected:
  // Runs `body` on all ranks and checks that nothing is left afterwards.
  void OnRanks(const std::function<std::string(ProcessGroup&)>& body) {
    const Holdings before = Holdings::Now();
    EXPECT_EQ(RunThreadRanks(GetParam(), {.name = "m", .timeout_ns = kTimeoutNs}, body), "");
    EXPECT_EQ(Holdings::Now().Since(before), "");
  }
};

int Next(const ProcessGroup& group) {
  return (group.rank() + 1) % group.size();
}

int Previous(const ProcessGroup& group) {
  return (group.rank() + group.size() - 1) % group.size();
}

// Every size, with private and symmetric memory on each side, around a ring.
TEST_P(ThreadRanks, SendrecvBringsEverySizeAroundTheRing) {
  constexpr size_t kSizes[] = {0,          1,      23,        24,     25,
                               kEager - 1, kEager, 4097,      65537,  131072,
                               131073,     262145, (1 << 20), 700001, (3 << 20) + 7};
  const CaseSample sample({.every = 3, .sanitized = 7}, TestSeed(3));
  OnRanks([&](ProcessGroup& group) -> std::string {
    uint64_t number = 0;
    for (const size_t bytes : kSizes) {
      for (const int memory : {0, 1, 2, 3}) {
        for (const bool asynchronous : {false, true}) {
          if (!sample.Takes(++number)) continue;
          // Odd ranks have it the other way round, so that a pair has all four mixtures.
          const int mine = group.rank() % 2 == 0 ? memory : memory ^ 1;
          MessageBuffer in(bytes, (mine & 1) != 0, number % 5);
          MessageBuffer out(bytes, (mine & 2) != 0, number % 3);
          in.Fill(Mix(number, static_cast<uint64_t>(group.rank())));
          const Message send = SendOf(in.data(), bytes, Next(group), number);
          int sender = -1;
          const Message recv = RecvOf(out.data(), bytes, Previous(group), number, &sender);
          absl::Status status;
          if (asynchronous) {
            auto work = group.StartPair(send, recv);
            status = work.ok() ? (*work)->Wait(0) : work.status();
          } else {
            status = group.RunPair(send, recv);
          }
          if (!status.ok()) return Text(status);
          if (sender != Previous(group)) return "the sender is wrong";
          const std::string problem =
              out.Compare(Mix(number, static_cast<uint64_t>(Previous(group))));
          if (!problem.empty()) return std::to_string(bytes) + " bytes: " + problem;
        }
      }
    }
    return "";
  });
}

TEST_P(ThreadRanks, RandomTrafficArrives) {
  const uint64_t seed = TestSeed(20261122);
  SCOPED_TRACE(testing::Message() << "WEFT_TEST_SEED=" << seed);
  OnRanks([&](ProcessGroup& group) -> std::string {
    for (uint64_t round = 0; round < 3; ++round) {
      const std::string problem = RunTraffic(
          group, {.seed = seed + round, .messages = kTrafficMessages * group.size() / 2});
      if (!problem.empty()) return "seed " + std::to_string(seed + round) + ": " + problem;
    }
    return "";
  });
}

TEST_P(ThreadRanks, ProbesAndReceivesOfAnyTagKeepTheOrderOfEachSender) {
  const uint64_t seed = TestSeed(20261128);
  SCOPED_TRACE(testing::Message() << "WEFT_TEST_SEED=" << seed);
  OnRanks([&](ProcessGroup& group) { return RunProbes(group, seed, kProbedMessages); });
}

// What a receive that was posted before takes, a probe does not find; what is posted after it takes nothing from it.
TEST_P(ThreadRanks, AProbeWaitsInLineWithReceives) {
  OnRanks([&](ProcessGroup& group) -> std::string {
    constexpr size_t kSizes[] = {8, 100'000};
    for (const size_t bytes : kSizes) {
      MessageBuffer first(bytes, false);
      MessageBuffer second(bytes, false);
      MessageBuffer in(bytes, true);
      weft_message_info_t info = {.struct_size = sizeof(info)};
      const int previous = Previous(group);
      const auto early = group.Start(RecvOf(first.data(), bytes, previous, 5));
      const auto probe = group.Start(ProbeOf(WEFT_ANY_SOURCE, WEFT_ANY_TAG, &info));
      const auto late = group.Start(RecvOf(second.data(), bytes, previous, WEFT_ANY_TAG));
      if (!early.ok() || !probe.ok() || !late.ok()) return "could not start";
      std::vector<WorkRef> works = {*early, *probe, *late};
      if ((*probe)->Test()) return "a probe ends before there is a message";
      if (!group.Run({.kind = OpKind::kBarrier}).ok()) return "the barrier failed";
      in.Fill(7);
      for (const uint64_t tag : {5, 6}) {
        const auto send = group.Start(SendOf(in.data(), bytes, Next(group), tag));
        if (!send.ok()) return Text(send.status());
        works.push_back(*send);
      }
      for (const WorkRef& work : works) {
        if (const absl::Status status = work->Wait(0); !status.ok()) return Text(status);
      }
      if (info.tag != 6 || info.source != previous || info.count != bytes)
        return "it has found another message, with tag " + std::to_string(info.tag);
      if (!first.Compare(7).empty() || !second.Compare(7).empty()) return "another message";
      const auto found = group.TryProbe(ProbeOf(WEFT_ANY_SOURCE, WEFT_ANY_TAG));
      if (!found.ok() || *found) return "a message is left";
    }
    return Text(group.Run({.kind = OpKind::kBarrier}));
  });
}

TEST_P(ThreadRanks, TagsAreReceivedInAnyOrder) {
  constexpr uint64_t kTags = 40;
  constexpr size_t kSizes[] = {8, kEager, 200000, 1};
  OnRanks([&](ProcessGroup& group) -> std::string {
    std::vector<std::unique_ptr<MessageBuffer>> in;
    std::vector<WorkRef> works;
    for (uint64_t tag = 0; tag < kTags; ++tag) {
      const size_t bytes = kSizes[tag % 4];
      in.push_back(std::make_unique<MessageBuffer>(bytes, tag % 8 < 4));
      in.back()->Fill(Mix(tag, static_cast<uint64_t>(group.rank())));
      works.push_back(group.Start(SendOf(in.back()->data(), bytes, Next(group), tag)).value());
    }
    for (uint64_t tag = kTags; tag-- > 0;) {
      MessageBuffer out(kSizes[tag % 4], tag % 2 == 0);
      const absl::Status status =
          group.Run(RecvOf(out.data(), kSizes[tag % 4], Previous(group), tag));
      if (!status.ok()) return Text(status);
      const std::string problem = out.Compare(Mix(tag, static_cast<uint64_t>(Previous(group))));
      if (!problem.empty()) return "tag " + std::to_string(tag) + ": " + problem;
    }
    for (const WorkRef& work : works) {
      if (!work->Wait(0).ok()) return Text(work->status());
    }
    return "";
  });
}

// Messages of one source and tag are received in the order in which they were sent, whatever their
// sizes; posted receives are served in the order in which they were posted.
TEST_P(ThreadRanks, OrderIsKeptWithinSourceAndTag) {
  constexpr size_t kCount = 64;
  OnRanks([&](ProcessGroup& group) -> std::string {
    std::vector<std::vector<uint32_t>> in(kCount), out(kCount);
    std::vector<WorkRef> works;
    for (size_t i = 0; i < kCount; ++i) {
      const size_t words = i % 3 == 0 ? 50000 : 10 + i;
      in[i].assign(words, static_cast<uint32_t>(1000 * group.rank()) + static_cast<uint32_t>(i));
      out[i].assign(words, 0);
      works.push_back(group.Start(SendOf(in[i].data(), 4 * words, Next(group), 3)).value());
      works.push_back(group.Start(RecvOf(out[i].data(), 4 * words, Previous(group), 3)).value());
    }
    for (const WorkRef& work : works) {
      if (!work->Wait(0).ok()) return Text(work->status());
    }
    for (size_t i = 0; i < kCount; ++i) {
      const uint32_t want =
          static_cast<uint32_t>(1000 * Previous(group)) + static_cast<uint32_t>(i);
      if (out[i] != std::vector<uint32_t>(out[i].size(), want)) {
        return "message " + std::to_string(i) + " is out of order";
      }
    }
    return "";
  });
}

// Everybody, rank 0 included, sends to rank 0, which asks for any source.
TEST_P(ThreadRanks, AnySourceGetsEveryMessageOnceAndInOrder) {
  constexpr uint32_t kEach = 50;
  constexpr size_t kWords = 3000;  // every third is larger than eager
  OnRanks([&](ProcessGroup& group) -> std::string {
    std::vector<WorkRef> works;
    std::vector<std::vector<uint32_t>> in;
    for (uint32_t i = 0; i < kEach; ++i) {
      in.emplace_back(i % 3 == 0 ? kWords : 2, i);
      works.push_back(
          group.Start(SendOf(in.back().data(), 4 * in.back().size(), 0, i % 3 == 0 ? 1 : 0))
              .value());
    }
    if (group.rank() == 0) {
      std::map<std::pair<int, uint64_t>, std::vector<uint32_t>> got;  // by sender and tag
      for (uint32_t i = 0; i < kEach * static_cast<uint32_t>(group.size()); ++i) {
        const uint64_t tag = i % kEach % 3 == 0 ? 1 : 0;
        std::vector<uint32_t> out(tag == 1 ? kWords : 2, 0);
        int sender = -1;
        const absl::Status status =
            group.Run(RecvOf(out.data(), 4 * out.size(), WEFT_ANY_SOURCE, tag, &sender));
        if (!status.ok()) return Text(status);
        if (out.front() != out.back()) return "a torn message";
        got[{sender, tag}].push_back(out.front());
      }
      for (int sender = 0; sender < group.size(); ++sender) {
        for (const uint64_t tag : {0u, 1u}) {
          std::vector<uint32_t> want;
          for (uint32_t i = 0; i < kEach; ++i) {
            if ((i % 3 == 0) == (tag == 1)) want.push_back(i);
          }
          if (got[{sender, tag}] != want) return "rank " + std::to_string(sender) + " out of order";
        }
      }
    }
    for (const WorkRef& work : works) {
      if (!work->Wait(0).ok()) return Text(work->status());
    }
    return "";
  });
}

TEST_P(ThreadRanks, AThousandMessagesInFlight) {
  const uint64_t seed = TestSeed(4);
  SCOPED_TRACE(testing::Message() << "WEFT_TEST_SEED=" << seed);
  OnRanks([&](ProcessGroup& group) -> std::string {
    return RunTraffic(group,
                      {.seed = seed, .messages = kManyMessages, .large_bytes = 9000, .tags = 50});
  });
}

// Blocking receives find what blocking sends have left, both ways; sizes around the eager limit.
TEST_P(ThreadRanks, PingPongMakesNoAllocation) {
  OnRanks([&](ProcessGroup& group) -> std::string {
    if (group.size() < 2 || group.rank() > 1) return "";
    char data[kEager] = {};
    const int peer = 1 - group.rank();
    size_t allocated = 0;
    for (int i = 0; i < kPingPongs; ++i) {
      const size_t bytes = static_cast<size_t>(i) * 7 % (kEager + 1);
#ifndef WEFT_SANITIZE
      if (i == 10) allocated = allocations;
#endif
      for (const bool sends : {group.rank() == 0, group.rank() == 1}) {
        if (sends) data[bytes / 2] = static_cast<char>(i);
        const absl::Status status =
            group.Run(sends ? SendOf(data, bytes, peer) : RecvOf(data, bytes, peer));
        if (!status.ok()) return Text(status);
        if (!sends && bytes > 0 && data[bytes / 2] != static_cast<char>(i)) return "wrong data";
      }
    }
#ifndef WEFT_SANITIZE
    if (allocations != allocated) {
      return std::to_string(allocations - allocated) + " allocations in the steady path";
    }
#endif
    return allocated == SIZE_MAX ? "impossible" : "";
  });
}

// Both sides send before they receive, or the other way round, large and small.
TEST_P(ThreadRanks, AsynchronousExchangeFinishesInAnyOrder) {
  OnRanks([&](ProcessGroup& group) -> std::string {
    for (int order = 0; order < 8; ++order) {
      const size_t bytes = order < 4 ? 600000 : 64;
      std::vector<std::unique_ptr<MessageBuffer>> buffers;
      std::vector<WorkRef> sends, receives;
      for (const bool send_now : {order % 2 == 0, order % 2 != 0}) {
        for (int peer = 0; peer < group.size(); ++peer) {
          buffers.push_back(std::make_unique<MessageBuffer>(bytes, order % 4 >= 2));
          char* const data = buffers.back()->data();
          if (send_now) {
            buffers.back()->Fill(static_cast<uint64_t>(100 * group.rank() + peer));
            sends.push_back(group.Start(SendOf(data, bytes, peer)).value());
          } else {
            receives.push_back(group.Start(RecvOf(data, bytes, peer)).value());
          }
        }
      }
      for (const auto* works : {&receives, &sends}) {
        for (const WorkRef& work : *works) {
          if (const absl::Status status = work->Wait(0); !status.ok()) return Text(status);
        }
      }
      const size_t first = order % 2 == 0 ? static_cast<size_t>(group.size()) : 0;
      for (int peer = 0; peer < group.size(); ++peer) {
        const std::string problem = buffers[first + static_cast<size_t>(peer)]->Compare(
            static_cast<uint64_t>(100 * peer + group.rank()));
        if (!problem.empty()) return "from " + std::to_string(peer) + ": " + problem;
      }
    }
    return "";
  });
}

// Large messages that nobody receives do not keep later ones with another tag.
TEST_P(ThreadRanks, UnmatchedLargeMessagesLetOthersPass) {
  OnRanks([](ProcessGroup& group) -> std::string {
    constexpr size_t kLarge = 300000;
    constexpr int kLargeCount = 40;  // more than there are replies
    std::vector<std::unique_ptr<MessageBuffer>> in;
    std::vector<WorkRef> works;
    for (int i = 0; i < kLargeCount; ++i) {
      in.push_back(std::make_unique<MessageBuffer>(kLarge, i % 2 == 0));
      in.back()->Fill(static_cast<uint64_t>(i));
      works.push_back(group.Start(SendOf(in.back()->data(), kLarge, Next(group), 1)).value());
    }
    MessageBuffer small(100, false), big(kLarge, false), out(kLarge, true);
    small.Fill(7);
    big.Fill(8);
    works.push_back(group.Start(SendOf(small.data(), 100, Next(group), 2)).value());
    works.push_back(group.Start(SendOf(big.data(), kLarge, Next(group), 3)).value());
    for (const uint64_t tag : {2, 3}) {
      const size_t bytes = tag == 2 ? 100 : kLarge;
      MessageBuffer got(bytes, tag == 2);
      const absl::Status status = group.Run(RecvOf(got.data(), bytes, Previous(group), tag));
      if (!status.ok()) return Text(status);
      std::string problem = got.Compare(5 + tag);
      if (!problem.empty()) return problem;
    }
    for (int i = 0; i < kLargeCount; ++i) {
      const absl::Status status = group.Run(RecvOf(out.data(), kLarge, Previous(group), 1));
      if (!status.ok()) return Text(status);
      std::string problem = out.Compare(static_cast<uint64_t>(i));
      if (!problem.empty()) return problem;
    }
    for (const WorkRef& work : works) {
      if (!work->Wait(0).ok()) return Text(work->status());
    }
    return "";
  });
}

// Messages and collectives of one group, from one thread and from two at once.
TEST_P(ThreadRanks, MessagesAndCollectivesDoNotOrderEachOther) {
  OnRanks([](ProcessGroup& group) -> std::string {
    const auto collectives = [&](int rounds) -> std::string {
      for (int i = 0; i < rounds; ++i) {
        std::vector<int32_t> data(i % 5 == 0 ? 70000 : 10, 1);
        Collective call{.kind = OpKind::kAllReduce, .dtype = WEFT_INT32, .count = data.size()};
        call.in = call.out = data.data();
        if (const absl::Status status = group.Run(call); !status.ok()) return Text(status);
        if (data.back() != group.size()) return "a wrong sum";
      }
      return "";
    };
    // The message is under way on all ranks while they meet in collectives.
    for (const size_t bytes : {size_t{10}, size_t{900000}}) {
      MessageBuffer in(bytes, false), out(bytes, false);
      in.Fill(static_cast<uint64_t>(group.rank()));
      auto send = group.Start(SendOf(in.data(), bytes, Next(group))).value();
      std::string problem = collectives(3);
      if (!problem.empty()) return problem;
      auto recv = group.Start(RecvOf(out.data(), bytes, Previous(group))).value();
      problem = collectives(3);
      if (!problem.empty()) return problem;
      if (!recv->Wait(0).ok() || !send->Wait(0).ok()) return Text(recv->status());
      problem = out.Compare(static_cast<uint64_t>(Previous(group)));
      if (!problem.empty()) return problem;
    }
    std::string aside;
    std::thread other([&] { aside = collectives(30); });
    const std::string problem = RunTraffic(group, {.seed = 12, .messages = 60});
    other.join();
    return problem.empty() ? aside : problem;
  });
}

TEST_P(ThreadRanks, MessagesToOneselfArrive) {
  OnRanks([](ProcessGroup& group) -> std::string {
    for (const size_t bytes : {size_t{0}, size_t{50}, kEager, kEager + 1, size_t{1000001}}) {
      for (const bool heap : {false, true}) {
        MessageBuffer in(bytes, heap), out(bytes, false), again(bytes, heap);
        in.Fill(bytes);
        const Message send = SendOf(in.data(), bytes, group.rank(), 5);
        const absl::Status both = group.RunPair(send, RecvOf(out.data(), bytes, group.rank(), 5));
        if (!both.ok()) return Text(both);
        auto work = group.Start(send).value();
        int sender = -1;
        const absl::Status got =
            group.Run(RecvOf(again.data(), bytes, WEFT_ANY_SOURCE, 5, &sender));
        if (!got.ok() || !work->Wait(0).ok()) return Text(got);
        if (sender != group.rank()) return "the sender is wrong";
        std::string problem = out.Compare(bytes) + again.Compare(bytes);
        if (!problem.empty()) return problem;
      }
    }
    return "";
  });
}

// Several threads of each rank, each pair with a tag of its own.
TEST_P(ThreadRanks, ManyThreadsOfARankAtOnce) {
  OnRanks([](ProcessGroup& group) -> std::string {
    constexpr uint64_t kThreads = 4;
    std::vector<std::string> problems(kThreads);
    std::vector<std::thread> threads;
    for (uint64_t tag = 0; tag < kThreads; ++tag) {
      threads.emplace_back([&, tag] {
        for (uint64_t i = 0; i < 40 && problems[tag].empty(); ++i) {
          const size_t bytes = i % 4 == 0 ? 20000 : 16;
          MessageBuffer in(bytes, i % 8 == 0), out(bytes, false);
          in.Fill(Mix(tag, i));
          const absl::Status status =
              group.RunPair(SendOf(in.data(), bytes, Next(group), tag),
                            RecvOf(out.data(), bytes, Previous(group), tag));
          problems[tag] = status.ok() ? out.Compare(Mix(tag, i)) : Text(status);
        }
      });
    }
    for (std::thread& thread : threads)
      thread.join();
    return std::accumulate(problems.begin(), problems.end(), std::string());
  });
}

// Nobody waits: the progress thread brings both sides to their end, and callbacks run once each.
TEST_P(ThreadRanks, WorksEndByThemselvesAndCallBackOnce) {
  std::atomic<int> called{0};
  constexpr size_t kBytes = 500000;
  const int size = GetParam();
  OnRanks([&](ProcessGroup& group) -> std::string {
    MessageBuffer in(kBytes, false), out(kBytes, false);
    in.Fill(1);
    auto work = group.StartPair(SendOf(in.data(), kBytes, Next(group)),
                                RecvOf(out.data(), kBytes, Previous(group)));
    if (!work.ok()) return Text(work.status());
    if (!(*work)->OnComplete(
            [&](const absl::Status& status) { called += status.ok() ? 1 : 100; })) {
      return "the callback was refused";
    }
    if ((*work)->OnComplete([](const absl::Status&) {})) return "a second callback was accepted";
    const int64_t start_ns = MonotonicNs();
    while (called < size && MonotonicNs() - start_ns < kTimeoutNs)
      std::this_thread::yield();
    if (!(*work)->Test()) return "not ended after its callback";
    return out.Compare(1);
  });
  EXPECT_EQ(called, size);
}

// A wait with a limit gives up and leaves the message alone.
TEST(MessageWork, WaitGivesUpAtItsLimitAndTheMessageGoesOn) {
  EXPECT_EQ(RunThreadRanks(1, {.name = "m", .timeout_ns = kTimeoutNs},
                           [](ProcessGroup& group) -> std::string {
                             MessageBuffer in(100, false), out(100, false);
                             in.Fill(3);
                             auto work = group.Start(RecvOf(out.data(), 100, 0)).value();
                             const absl::Status early = work->Wait(3'000'000);
                             if (ResultOf(early) != WEFT_IN_PROGRESS) return "got: " + Text(early);
                             if (work->Test()) return "ended without a message";
                             const absl::Status sent = group.Run(SendOf(in.data(), 100, 0));
                             if (!sent.ok() || !work->Wait(0).ok()) return Text(sent);
                             return out.Compare(3);
                           }),
            "");
}

INSTANTIATE_TEST_SUITE_P(RankSet, ThreadRanks, ::testing::ValuesIn(kThreadRanks));

}  // namespace
}  // namespace weft::test
