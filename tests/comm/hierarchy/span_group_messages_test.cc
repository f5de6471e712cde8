// Messages of groups over fake nodes of this machine, as processes: contents, whom they come from, and how they fail.
#include <array>
#include <csignal>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"
#include "tests/comm/hierarchy/fake_node_ranks.h"
#include "tests/comm/node/message_case.h"
#include "tests/support/case_sample.h"

namespace weft::test {
namespace {

#ifdef WEFT_SANITIZE
constexpr int kTrafficMessages = 60;
#else
constexpr int kTrafficMessages = 200;
#endif

constexpr size_t kLarge = 1'000'003;

// "" if others end the group, with `result` and, unless that is -1, because of rank `culprit`.
std::string AwaitEnd(ProcessGroup& group, weft_result_t result, int culprit = -1) {
  const int64_t until_ns = MonotonicNs() + 20 * kSecondNs;
  while (group.error().ok() && MonotonicNs() < until_ns)
    usleep(5'000);
  const absl::Status ended = group.error();
  if (culprit >= 0 && FieldsOf(ended).rank != culprit)
    return StrCat("it names another rank: ", Text(ended));
  return Expect(ended, result);
}

TEST(SpanGroupMessages, RandomTrafficArrives) {
  const uint64_t seed = FirstSeedToTry(52);
  SCOPED_TRACE(StrCat("WEFT_TEST_SEED=", seed));
  for (const Nodes& shape : kNodes) {
    RunNodes(shape, [&](ProcessGroup& group) -> std::string {
      for (uint64_t round = 0; round < 2; ++round) {
        std::string problem =
            RunTraffic(group, {.seed = seed + round, .messages = kTrafficMessages});
        if (!problem.empty()) return problem;
      }
      const GroupStats stats = group.stats();
      return stats.pending == 0 && stats.messages > 0 ? "" : "it counts wrongly";
    });
  }
}

TEST(SpanGroupMessages, ProbesAndReceivesOfAnyTagKeepTheOrderOfEachSender) {
  const uint64_t seed = FirstSeedToTry(53);
  SCOPED_TRACE(StrCat("WEFT_TEST_SEED=", seed));
  for (const Nodes& shape : {Nodes{2, "2"}, Nodes{3, "0,0,1"}, Nodes{5, "3"}}) {
    RunNodes(shape,
             [&](ProcessGroup& group) { return RunProbes(group, seed, kTrafficMessages / 10); });
  }
}

// Both ways at once, without the progress thread's help or anybody's buffers.
TEST(SpanGroupMessages, BlockingRingsAndCollectivesMix) {
  for (const Nodes& shape : {Nodes{3, "0,0,1"}, Nodes{3, "0,1,2"}, Nodes{5, "3"}}) {
    RunNodes(shape, [](ProcessGroup& group) -> std::string {
      const int next = (group.rank() + 1) % group.size();
      const int previous = (group.rank() + group.size() - 1) % group.size();
      for (uint64_t i = 0; i < 60; ++i) {
        const size_t bytes = i % 10 == 9 ? 700'001 : i * 197 % 10'000;
        MessageBuffer in(bytes, i % 2 == 0);
        MessageBuffer out(bytes, i % 4 < 2);
        in.Fill(Mix(i, static_cast<uint64_t>(group.rank())));
        const absl::Status status =
            group.RunPair(SendOf(in.data(), bytes, next), RecvOf(out.data(), bytes, previous));
        if (!status.ok()) return Text(status);
        std::string problem = out.Compare(Mix(i, static_cast<uint64_t>(previous)));
        if (!problem.empty()) return problem;
        if (i % 7 == 0 && !group.Run({.kind = OpKind::kBarrier}).ok()) return "the barrier failed";
      }
      return group.stats().messages == 120 ? "" : "it counts wrongly";
    });
  }
}

// Rank 0 takes what comes, and answers; blocking calls on all sides.
TEST(SpanGroupMessages, AServerReceivesFromAnySourceAndAnswers) {
  RunNodes({5, "3"}, [](ProcessGroup& group) -> std::string {
    constexpr int kRequests = 30;
    std::vector<int> served(static_cast<size_t>(group.size()));
    if (group.rank() == 0) {
      for (int i = 0; i < kRequests * (group.size() - 1); ++i) {
        std::array<int, 2> request{};
        int sender = -1;
        const absl::Status came =
            group.Run(RecvOf(request.data(), sizeof(request), WEFT_ANY_SOURCE, 1, &sender));
        if (!came.ok()) return Text(came);
        if (request[0] != sender || request[1] != served[static_cast<size_t>(sender)]++) {
          return "another request";
        }
        const std::vector<int> answer(static_cast<size_t>(request[1]) * 300, sender);
        const absl::Status sent =
            group.Run(SendOf(answer.data(), answer.size() * sizeof(int), sender, 2));
        if (!sent.ok()) return Text(sent);
      }
      return "";
    }
    for (int i = 0; i < kRequests; ++i) {
      const std::array<int, 2> request{group.rank(), i};
      const absl::Status sent = group.Run(SendOf(request.data(), sizeof(request), 0, 1));
      std::vector<int> answer(static_cast<size_t>(i) * 300);
      const absl::Status came = group.Run(RecvOf(answer.data(), answer.size() * sizeof(int), 0, 2));
      if (!sent.ok() || !came.ok()) return Text(sent) + Text(came);
      for (const int value : answer) {
        if (value != group.rank()) return "another answer";
      }
    }
    return "";
  });
}

TEST(SpanGroupMessages, WhatIsSentBeforeARankLeavesArrives) {
  for (const size_t bytes : {size_t{0}, size_t{WEFT_EAGER_BYTES}, kLarge}) {
    RunNodes({2, "2"}, [&](ProcessGroup& group) -> std::string {
      for (const int sender : {0, 1}) {
        MessageBuffer data(bytes, false);
        if (group.rank() == sender) data.Fill(9);
        if (sender == 1 && group.rank() == 0) usleep(100'000);
        const absl::Status ended = group.rank() == sender
                                       ? group.Run(SendOf(data.data(), bytes, 1 - sender))
                                       : group.Run(RecvOf(data.data(), bytes, sender));
        if (!ended.ok()) return Text(ended);
        std::string problem = data.Compare(9);
        if (!problem.empty()) return problem;
      }
      return "";
    });
  }
}

TEST(SpanGroupMessages, AnotherCountOrTypeEndsTheGroupOnAllNodes) {
  for (const bool other_type : {false, true}) {
    for (const size_t count : {size_t{10}, kLarge}) {
      RunNodes({3, "0,0,1"}, [&](ProcessGroup& group) -> std::string {
        std::vector<char> data(count + 1);
        Message message = group.rank() == 0 ? SendOf(data.data(), count, 2, 7)
                                            : RecvOf(data.data(), count, WEFT_ANY_SOURCE, 7);
        if (group.rank() == 2) {
          if (other_type) {
            message.dtype = WEFT_INT8;
          } else {
            ++message.count;
          }
        }
        if (group.rank() == 1) return AwaitEnd(group, WEFT_MISMATCH);
        absl::Status ended = group.Run(message);
        // A small send has returned already.
        if (ended.ok() && group.rank() == 0 && count == 10) {
          std::string problem = AwaitEnd(group, WEFT_MISMATCH);
          if (!problem.empty()) return problem;
          ended = group.error();
        }
        return Expect(ended, WEFT_MISMATCH, {"on group s", "with tag 7", "both sides"});
      });
    }
  }
}

TEST(SpanGroupMessages, AKilledRankIsNamedByWhoWaitsForIt) {
  constexpr int kVictim = 3;
  for (const int waits_with : {0, 1, 2, 3}) {
    SCOPED_TRACE(waits_with);
    RunNodes(
        {4, "2"},
        [&](ProcessGroup& group) -> std::string {
          std::vector<char> data(kLarge);
          if (group.rank() == kVictim) {
            for (const int peer : {0, 1, 2}) {
              const Message farewell = SendOf(data.data(), 5000, peer, 1);  // ends when it has come
              if (!group.Run(farewell).ok()) return "could not send";
            }
            usleep(50'000);
            (void)kill(getpid(), SIGKILL);
          }
          const absl::Status first = group.Run(RecvOf(data.data(), 5000, kVictim, 1));
          if (!first.ok()) return StrCat("the message before its death: ", Text(first));
          const Message message = waits_with == 0   ? RecvOf(data.data(), 9, kVictim, 2)
                                  : waits_with == 1 ? RecvOf(data.data(), 9, WEFT_ANY_SOURCE, 2)
                                  : waits_with == 2 ? ProbeOf(kVictim, WEFT_ANY_TAG)
                                                    : SendOf(data.data(), kLarge, kVictim, 2);
          const absl::Status ended = Do(group, message, group.rank() == 1);
          const ErrorFields fields = FieldsOf(ended);
          if (fields.rank != kVictim || fields.signal != SIGKILL) {
            return StrCat("rank or signal is wrong: ", Text(ended));
          }
          if (ResultOf(ended) != WEFT_PEER_LOST) return Text(ended);
          if (fields.operation != MessageName(message)) return "of " + fields.operation;
          return ResultOf(group.Run(message)) == WEFT_ABORTED ? "" : "it goes on";
        },
        kVictim);
  }
}

TEST(SpanGroupMessages, ATimeoutNamesThePeer) {
  for (const bool is_send : {false, true}) {
    for (const int peer : {1, 2}) {
      RunNodes({3, "0,0,1"}, [&](ProcessGroup& group) -> std::string {
        std::vector<char> data(kLarge);
        if (group.rank() != 0) return AwaitEnd(group, WEFT_TIMEOUT, peer);
        Message message =
            is_send ? SendOf(data.data(), kLarge, peer, 5) : RecvOf(data.data(), kLarge, peer, 5);
        message.timeout_ns = kSecondNs / 2;
        const absl::Status ended = group.Run(message);
        if (FieldsOf(ended).rank != peer) return StrCat("it names another rank: ", Text(ended));
        return Expect(ended, WEFT_TIMEOUT, {StrCat("rank ", peer), "with tag 5", "uint8"});
      });
    }
  }
}

// Parts share the connections of the first group, in which their ranks have other numbers.
TEST(SpanGroupMessages, PartsHaveMessagesOfTheirOwn) {
  const uint64_t seed = FirstSeedToTry(60);
  SCOPED_TRACE(StrCat("WEFT_TEST_SEED=", seed));
  RunNodes({5, "3"}, [&](ProcessGroup& group) -> std::string {
    auto part = group.Split(group.rank() == 1 ? 1 : 0, -group.rank(), {.name = "p"});
    if (!part.ok()) return Text(part.status());
    // The same tags under way in both.
    std::vector<char> in(kLarge, 'g');
    std::vector<char> out(kLarge);
    const auto own = group.StartPair(SendOf(in.data(), kLarge, 4 - group.rank()),
                                     RecvOf(out.data(), kLarge, 4 - group.rank()));
    if (!own.ok()) return Text(own.status());
    std::string problem = RunTraffic(**part, {.seed = seed, .messages = kTrafficMessages / 2});
    const absl::Status exchanged = (*own)->Wait(0);
    if (problem.empty() && (!exchanged.ok() || out != in))
      problem = "the whole group: " + Text(exchanged);
    if (!problem.empty()) return problem;
    if ((*part)->size() > 1) {
      // Rank 4 of the group, 0 of the part, sends another count to rank 0 of the group.
      const int last = (*part)->size() - 1;
      absl::Status ended;
      if ((*part)->rank() == 0) {
        ended = (*part)->Run(SendOf(in.data(), kLarge, last, 3));
      } else if ((*part)->rank() == last) {
        ended = (*part)->Run(RecvOf(out.data(), kLarge - 1, 0, 3));
      } else {
        problem = AwaitEnd(**part, WEFT_MISMATCH);
      }
      if (problem.empty() && !ended.ok()) {
        problem =
            Expect(ended, WEFT_MISMATCH,
                   {"on group p: rank 0 sent 1000003 uint8 with tag 3, rank 3 expects 1000002"});
      }
    }
    (*part)->Close();
    if (!problem.empty()) return problem;
    return Text(group.Run({.kind = OpKind::kBarrier}));
  });
}

TEST(SpanGroupMessages, WhatIsPendingEndsWithTheGroup) {
  RunNodes({2, "2"}, [](ProcessGroup& group) -> std::string {
    std::vector<char> data(kLarge);
    const auto receive = group.Start(RecvOf(data.data(), 9, 1 - group.rank(), 1));
    const auto any = group.Start(RecvOf(data.data(), 9, WEFT_ANY_SOURCE, 2));
    const auto send = group.Start(SendOf(data.data(), kLarge, 1 - group.rank(), 3));
    const auto own = group.Start(SendOf(data.data(), kLarge, group.rank(), 3));
    std::vector<char> other(kLarge);
    const auto pair = group.StartPair(SendOf(data.data(), 5, 1 - group.rank(), 4),
                                      RecvOf(other.data(), 5, 1 - group.rank(), 5));
    if (group.rank() == 1) group.Abort("enough");
    for (const auto* const work : {&receive, &any, &send, &own, &pair}) {
      if (!work->ok()) {
        if (ResultOf(work->status()) != WEFT_ABORTED) return Text(work->status());
        continue;
      }
      std::string problem = Expect((**work)->Wait(0), WEFT_ABORTED, {"enough"});
      if (!problem.empty()) return problem;
    }
    return ResultOf(group.Run(SendOf(data.data(), 1, group.rank()))) == WEFT_ABORTED ? ""
                                                                                     : "it goes on";
  });
}

}  // namespace
}  // namespace weft::test
