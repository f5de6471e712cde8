// Messages with ranks as processes: contents, and what survivors are told when one is killed or stopped.
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "base/status.h"
#include "base/wait.h"
#include "comm/node/heap.h"
#include "message_case.h"
#include "rank_processes.h"
#include "rank_threads.h"
#include "tests/support/leak_check.h"

namespace weft::test::message_process_test {
namespace {

#ifdef WEFT_SANITIZE
constexpr int kTrafficMessages = 60;
#else
constexpr int kTrafficMessages = 300;
#endif

constexpr size_t kLarge = 1 << 20;

class MessageProcesses : public ::testing::TestWithParam<int> {};

TEST_P(MessageProcesses, RandomTrafficArrives) {
  const uint64_t seed = TestSeed(52);
  SCOPED_TRACE(testing::Message() << "WEFT_TEST_SEED=" << seed);
  RunProcessRanks(GetParam(), [&](ProcessGroup& group) -> std::string {
    for (uint64_t round = 0; round < 2; ++round) {
      std::string problem = RunTraffic(
          group, {.seed = seed + round, .messages = kTrafficMessages * group.size() / 2});
      if (!problem.empty()) return problem;
    }
    return "";
  });
}

TEST_P(MessageProcesses, ProbesAndReceivesOfAnyTagKeepTheOrderOfEachSender) {
  const uint64_t seed = TestSeed(53);
  SCOPED_TRACE(testing::Message() << "WEFT_TEST_SEED=" << seed);
  RunProcessRanks(GetParam(), [&](ProcessGroup& group) { return RunProbes(group, seed, 20); });
}

TEST_P(MessageProcesses, BlockingRingsAndCollectivesMix) {
  RunProcessRanks(GetParam(), [](ProcessGroup& group) -> std::string {
    const int next = (group.rank() + 1) % group.size();
    const int previous = (group.rank() + group.size() - 1) % group.size();
    for (uint64_t i = 0; i < 60; ++i) {
      const size_t bytes = i % 10 == 9 ? 700001 : i * 97 % 5000;
      MessageBuffer in(bytes, i % 2 == 0), out(bytes, i % 4 < 2);
      in.Fill(Mix(i, static_cast<uint64_t>(group.rank())));
      const absl::Status status =
          group.RunPair(SendOf(in.data(), bytes, next), RecvOf(out.data(), bytes, previous));
      if (!status.ok()) return Text(status);
      std::string problem = out.Compare(Mix(i, static_cast<uint64_t>(previous)));
      if (!problem.empty()) return problem;
      if (i % 7 == 0 && !group.Run({.kind = OpKind::kBarrier}).ok()) return "the barrier failed";
    }
    return "";
  });
}

INSTANTIATE_TEST_SUITE_P(RankSet, MessageProcesses, ::testing::ValuesIn(kProcessRanks));

// Rank 2 sends one small message to each and is killed: that message arrives, what comes after it fails
// on all ranks with its name and signal, soon.
void KillTheSender(const std::function<Message(ProcessGroup&, char*)>& make, bool asynchronous) {
  constexpr int kVictim = 2;
  RunProcessRanks(3,
                  [&](ProcessGroup& group) -> std::string {
                    MessageBuffer data(kLarge, group.rank() == 1);
                    if (group.rank() == kVictim) {
                      for (const int peer : {0, 1}) {
                        if (!group.Run(SendOf(data.data(), 100, peer, 1)).ok())
                          return "could not send";
                      }
                      usleep(20'000);
                      kill(getpid(), SIGKILL);
                    }
                    // Rank 0 receives it after the death, rank 1 before; then rank 0 is the first to go on.
                    if (group.rank() == 0) usleep(100'000);
                    const absl::Status first = group.Run(RecvOf(data.data(), 100, kVictim, 1));
                    if (!first.ok()) return "the message before its death: " + Text(first);
                    if (group.rank() == 1) usleep(300'000);
                    const int64_t start_ns = MonotonicNs();
                    const absl::Status status = Do(group, make(group, data.data()), asynchronous);
                    if (MonotonicNs() - start_ns > 1'000'000'000) return "late";
                    if (FieldsOf(status).rank != kVictim || FieldsOf(status).signal != SIGKILL) {
                      return "rank or signal is wrong: " + Text(status);
                    }
                    return Expect(status, WEFT_PEER_LOST, {"rank 2 (host "});
                  },
                  {kVictim});
}

TEST(KilledRank, IsNamedByReceivesFromIt) {
  for (const bool asynchronous : {false, true})
    KillTheSender([](ProcessGroup&, char* data) { return RecvOf(data, 100, 2, 2); }, asynchronous);
}

TEST(KilledRank, IsNamedByReceivesFromAny) {
  KillTheSender([](ProcessGroup&, char* data) { return RecvOf(data, 9, WEFT_ANY_SOURCE, 2); },
                false);
}

TEST(KilledRank, IsNamedByProbes) {
  for (const bool asynchronous : {false, true}) {
    KillTheSender([](ProcessGroup&, char*) { return ProbeOf(2, WEFT_ANY_TAG); }, asynchronous);
    KillTheSender([](ProcessGroup&, char*) { return ProbeOf(WEFT_ANY_SOURCE, 2); }, asynchronous);
  }
}

TEST(KilledRank, IsNamedBySendsToIt) {
  for (const bool asynchronous : {false, true})
    KillTheSender([](ProcessGroup&, char* data) { return SendOf(data, kLarge, 2, 2); },
                  asynchronous);
}

// Killed somewhere inside a stream of large messages.
TEST(KilledRank, IsNamedInTheMiddleOfAMessage) {
  constexpr size_t kHuge = 64 << 20;
  for (const bool heap : {false, true}) {
    RunProcessRanks(2,
                    [&](ProcessGroup& group) -> std::string {
                      const int64_t start_ns = MonotonicNs();
                      MessageBuffer data(kHuge, heap);
                      absl::Status status;
                      for (uint64_t i = 0; status.ok() && MonotonicNs() - start_ns < 60'000'000'000;
                           ++i) {
                        const Message message = group.rank() == 0 ? SendOf(data.data(), kHuge, 1)
                                                                  : RecvOf(data.data(), kHuge, 0);
                        if (group.rank() == 1 && i == 2) {
                          const pid_t victim = getpid();
                          if (fork() == 0) {
                            usleep(3'000);
                            kill(victim, SIGKILL);
                            _exit(0);
                          }
                        }
                        status = group.Run(message);
                      }
                      return Expect(status, WEFT_PEER_LOST, {"rank 1 (host "});
                    },
                    {1});
  }
}

// A stopped rank is not dead: the deadline says that it is stopped.
TEST(StoppedMessageRank, IsReportedAsStoppedAtTheDeadline) {
  for (const bool heap : {false, true}) {
    RunProcessRanks(2, [&](ProcessGroup& group) -> std::string {
      const pid_t self = getpid();
      pid_t peer = 0;
      const int other = 1 - group.rank();
      if (!group.RunPair(SendOf(&self, sizeof(self), other), RecvOf(&peer, sizeof(peer), other))
               .ok()) {
        return "could not exchange the pids";
      }
      MessageBuffer data(kLarge, heap);
      if (group.rank() == 1) {
        raise(SIGSTOP);
        return Expect(group.Run(RecvOf(data.data(), kLarge, 0, 4)), WEFT_TIMEOUT, {"tag 4"});
      }
      Message send = SendOf(data.data(), kLarge, 1, 4);
      send.timeout_ns = 400'000'000;
      const absl::Status status = group.Run(send);
      kill(peer, SIGCONT);
      return Expect(status, WEFT_TIMEOUT, {"process stopped", "has not received it"});
    });
  }
}

// A receiver is stopped while it copies from this rank's buffer, maybe: the block is kept if, and only
// if, the message says so.
TEST(StoppedMessageRank, CostsASymmetricBlockIfItWasCopyingFromIt) {
  constexpr size_t kHuge = 256 << 20;
  RunProcessRanks(2, [](ProcessGroup& group) -> std::string {
    const pid_t self = getpid();
    pid_t peer = 0;
    const int other = 1 - group.rank();
    if (!group.RunPair(SendOf(&self, sizeof(self), other), RecvOf(&peer, sizeof(peer), other))
             .ok()) {
      return "could not exchange the pids";
    }
    void* const data = *ProcessHeap().Allocate(kHuge);
    const pid_t stopper = group.rank() == 0 ? fork() : -1;
    if (stopper == 0) {
      usleep(150'000);
      kill(peer, SIGSTOP);
      _exit(0);
    }
    Message message = group.rank() == 0 ? SendOf(data, kHuge, 1) : RecvOf(data, kHuge, 0);
    message.timeout_ns = 1'000'000'000;
    absl::Status status;
    while (status.ok())
      status = group.Run(message);
    if (group.rank() == 1) {
      (void)ProcessHeap().Free(data);
      return ResultOf(status) == WEFT_TIMEOUT ? "" : "after SIGCONT: " + Text(status);
    }
    const bool quarantined = Text(status).find("quarantine") != std::string::npos;
    const size_t live = ProcessHeap().live_bytes();
    (void)ProcessHeap().Free(data);
    const bool kept = ProcessHeap().live_bytes() == live;
    kill(peer, SIGCONT);
    if (ResultOf(status) != WEFT_TIMEOUT) return "got: " + Text(status);
    if (quarantined != kept) return "message and heap disagree: " + Text(status);
    _exit(0);  // a quarantined block stays, so the leak check does not apply
  });
}

}  // namespace
}  // namespace weft::test::message_process_test
