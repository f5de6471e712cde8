// Private messages that the receiver reads from the sender's memory: contents and the bytes that
// were read, several under way, what cannot be read, and senders that give up or die meanwhile.
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "base/status.h"
#include "base/wait.h"
#include "comm/select/load_model.h"
#include "comm/select/tuning.h"
#include "fmt/format.h"
#include "message_case.h"
#include "rank_processes.h"
#include "rank_threads.h"
#include "single_copy_calls.h"
#include "tests/support/leak_check.h"

namespace weft::test {
namespace {

const bool kCheap = MakeSingleCopyCheap();

#ifdef WEFT_SANITIZE
constexpr int kTrafficMessages = 60;
#else
constexpr int kTrafficMessages = 300;
#endif

constexpr size_t kEager = WEFT_EAGER_BYTES;
constexpr size_t kSliceBytes = 512 << 10;
constexpr size_t kLarge = 3 * (size_t{1} << 20) + 7;

SingleCopyCalls& Calls() {
  return SingleCopyCalls::Get();
}

int Next(const ProcessGroup& group) {
  return (group.rank() + 1) % group.size();
}

int Previous(const ProcessGroup& group) {
  return (group.rank() + group.size() - 1) % group.size();
}

std::string OnThreads(int size, const std::function<std::string(ProcessGroup&)>& body) {
  const Holdings before = Holdings::Now();
  const std::string problem =
      RunThreadRanks(size, {.name = "sc", .timeout_ns = 60'000'000'000}, body);
  return problem.empty() ? Holdings::Now().Since(before) : problem;
}

// A large private message from each rank to the next.
std::string AroundTheRing(ProcessGroup& group) {
  MessageBuffer in(kLarge, false), out(kLarge, false);
  in.Fill(static_cast<uint64_t>(group.rank()));
  const absl::Status status = group.RunPair(SendOf(in.data(), kLarge, Next(group)),
                                            RecvOf(out.data(), kLarge, Previous(group)));
  return status.ok() ? out.Compare(static_cast<uint64_t>(Previous(group))) : Text(status);
}

class SingleCopyMessages : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(kCheap);
    if (GetParam() > 1) {
      ASSERT_EQ(Choose(ProcessModel().model, GetParam()).single_copy_message_min_bytes, kEager);
    }
    Calls().Reset();
  }
};

// Around a ring, private memory to both kinds, misaligned, blocking and not; every byte is read
// once.
TEST_P(SingleCopyMessages, EverySizeIsReadOnce) {
  constexpr size_t kSizes[] = {1,      kEager,      kEager + 1,      65537,           131073,
                               700001, kSliceBytes, kSliceBytes + 1, 2 * kSliceBytes, kLarge};
  EXPECT_EQ(OnThreads(GetParam(),
                      [&](ProcessGroup& group) -> std::string {
                        uint64_t number = 0;
                        for (const size_t bytes : kSizes) {
                          for (const int form : {0, 1, 2, 3}) {
                            ++number;
                            MessageBuffer in(bytes, false, number % 5);
                            MessageBuffer out(bytes, form % 2 == 1, number % 3);
                            in.Fill(Mix(number, static_cast<uint64_t>(group.rank())));
                            const Message send = SendOf(in.data(), bytes, Next(group), number);
                            const Message recv = RecvOf(out.data(), bytes, Previous(group), number);
                            absl::Status status;
                            if (form / 2 == 1) {
                              auto work = group.StartPair(send, recv);
                              status = work.ok() ? (*work)->Wait(0) : work.status();
                            } else {
                              status = group.RunPair(send, recv);
                            }
                            if (!status.ok()) return Text(status);
                            const std::string problem =
                                out.Compare(Mix(number, static_cast<uint64_t>(Previous(group))));
                            if (!problem.empty()) return std::to_string(bytes) + ": " + problem;
                          }
                        }
                        return "";
                      }),
            "");
  if (GetParam() == 1) return;  // a group of one has chosen nothing
  uint64_t expected = 0;
  for (const size_t bytes : kSizes) {
    if (bytes > kEager) expected += 4 * BytesReadFor(bytes);
  }
  EXPECT_EQ(Calls().bytes, expected * static_cast<uint64_t>(GetParam()));
}

// Many under way with several tags, issued and waited for in any order; symmetric memory among it.
TEST_P(SingleCopyMessages, RandomTrafficArrives) {
  const uint64_t seed = TestSeed(63);
  SCOPED_TRACE(testing::Message() << "WEFT_TEST_SEED=" << seed);
  EXPECT_EQ(OnThreads(GetParam(),
                      [&](ProcessGroup& group) {
                        return RunTraffic(
                            group, {.seed = seed, .messages = kTrafficMessages * group.size() / 2});
                      }),
            "");
}

// All send to rank 0 at once, with two tags; it asks for any source and gets each rank's in order.
TEST_P(SingleCopyMessages, AnySourceGetsEachRanksInOrder) {
  constexpr uint32_t kEach = 12;
  constexpr size_t kWords = 50001;
  EXPECT_EQ(OnThreads(GetParam(),
                      [&](ProcessGroup& group) -> std::string {
                        std::vector<std::vector<uint32_t>> in;
                        std::vector<WorkRef> works;
                        for (uint32_t i = 0; i < kEach; ++i) {
                          in.emplace_back(kWords, i);
                          works.push_back(
                              group.Start(SendOf(in.back().data(), 4 * kWords, 0, i % 2)).value());
                        }
                        if (group.rank() == 0) {
                          std::vector<uint32_t> next(2 * static_cast<size_t>(group.size()), 0);
                          for (size_t i = 0; i < kEach * static_cast<size_t>(group.size()); ++i) {
                            const uint64_t tag = 1 - i % 2;
                            int sender = -1;
                            std::vector<uint32_t> out(kWords, UINT32_MAX);
                            const absl::Status status = group.Run(
                                RecvOf(out.data(), 4 * kWords, WEFT_ANY_SOURCE, tag, &sender));
                            if (!status.ok()) return Text(status);
                            uint32_t& turn = next[2 * static_cast<size_t>(sender) + tag];
                            const auto want = static_cast<uint32_t>(2 * turn++ + tag);
                            if (out != std::vector<uint32_t>(kWords, want)) return "wrong content";
                          }
                        }
                        for (const WorkRef& work : works) {
                          if (!work->Wait(0).ok()) return Text(work->status());
                        }
                        return "";
                      }),
            "");
  EXPECT_EQ(Calls().calls > 0, GetParam() > 1);
}

INSTANTIATE_TEST_SUITE_P(RankSet, SingleCopyMessages, testing::ValuesIn(kThreadRanks));

// From the first byte on, or after some slices; earlier and later messages with it.
TEST(UnreadableMessage, IsStreamedFromItsBeginning) {
  ASSERT_TRUE(kCheap);
  for (const int fail_from : {0, 1, 4, 9}) {
    SCOPED_TRACE(testing::Message() << "from call " << fail_from);
    Calls().Reset();
    Calls().fail_from = fail_from;
    EXPECT_EQ(OnThreads(2,
                        [&](ProcessGroup& group) -> std::string {
                          std::vector<std::unique_ptr<MessageBuffer>> buffers;
                          std::vector<WorkRef> works;
                          for (uint64_t i = 0; i < 6; ++i) {
                            const size_t bytes = i % 2 == 0 ? kLarge : kEager + 1 + i;
                            buffers.push_back(std::make_unique<MessageBuffer>(bytes, false));
                            char* const data = buffers.back()->data();
                            if (group.rank() == 0) buffers.back()->Fill(i);
                            const Message message = group.rank() == 0
                                                        ? SendOf(data, bytes, 1, i % 3)
                                                        : RecvOf(data, bytes, 0, i % 3);
                            works.push_back(group.Start(message).value());
                          }
                          for (uint64_t i = 0; i < works.size(); ++i) {
                            if (!works[i]->Wait(0).ok()) return Text(works[i]->status());
                            const std::string problem = buffers[i]->Compare(i);
                            if (!problem.empty()) return std::to_string(i) + ": " + problem;
                          }
                          return "";
                        }),
              "");
    EXPECT_GT(Calls().calls, fail_from);
  }
}

// The sender's deadline passes while the receiver reads; the sender uses its buffer for something
// else, and what the receiver read then is not taken for the message.
TEST(GivenUpMessage, IsNotReceivedWithWhatCameLater) {
  ASSERT_TRUE(kCheap);
  constexpr size_t kBytes = 300000;   // one slice
  MessageBuffer sent(kBytes, false);  // there as long as somebody may read it
  std::atomic<bool> overwritten{false};
  Calls().Reset();
  Calls().before = [&](int) {
    const int64_t start_ns = MonotonicNs();
    while (!overwritten && MonotonicNs() - start_ns < 20'000'000'000)
      usleep(1000);
  };
  EXPECT_EQ(OnThreads(2,
                      [&](ProcessGroup& group) -> std::string {
                        if (group.rank() == 1) {
                          MessageBuffer out(kBytes, false);
                          return Expect(group.Run(RecvOf(out.data(), kBytes, 0, 4)), WEFT_TIMEOUT,
                                        {"send of 300000 uint8 with tag 4"});
                        }
                        sent.Fill(1);
                        Message send = SendOf(sent.data(), kBytes, 1, 4);
                        send.timeout_ns = 150'000'000;
                        const absl::Status status = group.Run(send);
                        sent.Fill(2);
                        overwritten = true;
                        return Expect(status, WEFT_TIMEOUT, {"has not received it"});
                      }),
            "");
  EXPECT_EQ(Calls().calls, 1);
  Calls().Reset();
}

class SingleCopyProcesses : public testing::TestWithParam<int> {};

TEST_P(SingleCopyProcesses, RandomTrafficArrives) {
  ASSERT_TRUE(kCheap);
  const uint64_t seed = TestSeed(64);
  SCOPED_TRACE(testing::Message() << "WEFT_TEST_SEED=" << seed);
  Calls().Reset();
  RunProcessRanks(GetParam(), [&](ProcessGroup& group) -> std::string {
    std::string problem =
        RunTraffic(group, {.seed = seed, .messages = kTrafficMessages * group.size() / 2});
    if (!problem.empty() || group.size() == 1) return problem;
    const uint64_t read = Calls().bytes;
    std::string last = AroundTheRing(group);
    if (!last.empty()) return last;
    return Calls().bytes - read == BytesReadFor(kLarge) ? "" : "it was not read";
  });
}

INSTANTIATE_TEST_SUITE_P(RankSet, SingleCopyProcesses, testing::ValuesIn(kProcessRanks));

// Rank 1 reads, and rank `victim` is killed in the middle of a message.
void KillWhileReading(int victim) {
  constexpr size_t kHuge = 64 << 20;
  Calls().Reset();
  RunProcessRanks(2,
                  [&](ProcessGroup& group) -> std::string {
                    const int other = 1 - group.rank();
                    pid_t pids[2] = {getpid(), getpid()};
                    const absl::Status exchanged =
                        group.RunPair(SendOf(&pids[group.rank()], sizeof(pid_t), other),
                                      RecvOf(&pids[other], sizeof(pid_t), other));
                    if (!exchanged.ok()) return Text(exchanged);
                    Calls().before = [&](int call) {
                      if (call == 150) kill(pids[victim], SIGKILL);
                    };
                    MessageBuffer data(kHuge, false);
                    absl::Status status;
                    for (int i = 0; i < 1000 && status.ok(); ++i) {
                      status = group.Run(group.rank() == 0 ? SendOf(data.data(), kHuge, 1)
                                                           : RecvOf(data.data(), kHuge, 0));
                    }
                    if (FieldsOf(status).rank != victim || FieldsOf(status).signal != SIGKILL) {
                      return "rank or signal is wrong: " + Text(status);
                    }
                    return Expect(status, WEFT_PEER_LOST, {fmt::format("rank {} (host ", victim)});
                  },
                  {victim});
}

TEST(KilledRank, IsNamedByWhoReadsItsMessage) {
  ASSERT_TRUE(kCheap);
  KillWhileReading(0);
}

TEST(KilledRank, IsNamedByWhoseMessageItReads) {
  ASSERT_TRUE(kCheap);
  KillWhileReading(1);
}

}  // namespace
}  // namespace weft::test
