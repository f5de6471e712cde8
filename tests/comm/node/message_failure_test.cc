// What is said when a message does not arrive, and to whom: mismatches on both sides, deadlines with the
// peer's name, ranks that leave or abort. Ranks that die or stop: message_process_test.cc.
#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/status.h"
#include "base/wait.h"
#include "message_case.h"
#include "rank_threads.h"
#include "tests/support/leak_check.h"

namespace weft::test::message_failure_test {
namespace {

constexpr size_t kLarge = 1 << 20;

std::string OnThreads(int size, const std::function<std::string(ProcessGroup&)>& body) {
  const Holdings before = Holdings::Now();
  const std::string problem =
      RunThreadRanks(size, {.name = "dp", .timeout_ns = 30'000'000'000}, body);
  return problem.empty() ? Holdings::Now().Since(before) : problem;
}

// Rank 0 sends one thing, rank 1 expects another; rank 2 does neither and hears of it as well.
void ExpectMismatch(size_t sent, weft_dtype_t sent_type, size_t expected,
                    weft_dtype_t expected_type, const std::vector<std::string>& words) {
  for (const int form : {0, 1, 2, 3}) {
    const bool asynchronous = form % 2 == 1;
    const bool heap = form / 2 == 1;
    SCOPED_TRACE(testing::Message() << sent << " sent, form " << form);
    EXPECT_EQ(OnThreads(3,
                        [&](ProcessGroup& group) -> std::string {
                          MessageBuffer data(8 * std::max(sent, expected) + 8, heap);
                          absl::Status status;
                          if (group.rank() == 0) {
                            status = Do(group,
                                        {.is_send = true,
                                         .in = data.data(),
                                         .count = sent,
                                         .dtype = sent_type,
                                         .peer = 1,
                                         .tag = 7},
                                        asynchronous);
                            // A small one has returned already and hears of it in its next call.
                            if (status.ok()) status = group.Run(RecvOf(data.data(), 1, 1, 9));
                          } else if (group.rank() == 1) {
                            status = Do(group,
                                        {.out = data.data(),
                                         .count = expected,
                                         .dtype = expected_type,
                                         .peer = 0,
                                         .tag = 7},
                                        asynchronous);
                          } else {
                            status = group.Run(RecvOf(data.data(), 1, 1, 9));
                          }
                          std::string problem = Expect(status, WEFT_MISMATCH, words);
                          if (!problem.empty()) return problem;
                          if (FieldsOf(status).operation != "recv")
                            return "operation: " + FieldsOf(status).operation;
                          return Expect(group.Run(SendOf(data.data(), 1, 0)), WEFT_ABORTED);
                        }),
              "");
  }
}

TEST(MessageMismatch, OfCountIsToldToBothSides) {
  ExpectMismatch(
      4096, WEFT_FLOAT32, 4100, WEFT_FLOAT32,
      {"recv on group dp", "rank 0 sent 4096 float32 with tag 7", "rank 1 expects 4100 float32"});
  ExpectMismatch(3, WEFT_FLOAT32, 4, WEFT_FLOAT32, {"sent 3 float32", "expects 4 float32"});
  ExpectMismatch(0, WEFT_FLOAT32, 100000, WEFT_FLOAT32, {"sent 0 float32", "expects 100000"});
}

TEST(MessageMismatch, OfTypeIsToldToBothSides) {
  ExpectMismatch(10, WEFT_FLOAT32, 10, WEFT_INT32, {"10 float32", "10 int32"});
  ExpectMismatch(60000, WEFT_FLOAT64, 60000, WEFT_INT64, {"60000 float64", "60000 int64"});
}

// The last rank does nothing until the others have given up.
void ExpectTimeout(bool asynchronous, const std::function<Message(ProcessGroup&, char*)>& make,
                   const std::vector<std::string>& words, int culprit) {
  std::atomic<bool> given_up{false};
  EXPECT_EQ(OnThreads(2,
                      [&](ProcessGroup& group) -> std::string {
                        if (!group.Run({.kind = OpKind::kBarrier}).ok())
                          return "the barrier failed";
                        if (group.rank() == 1) {
                          const int64_t start_ns = MonotonicNs();
                          while (!given_up && MonotonicNs() - start_ns < 20'000'000'000)
                            std::this_thread::yield();
                          return Expect(group.Run({.kind = OpKind::kBarrier}), WEFT_TIMEOUT, words);
                        }
                        MessageBuffer data(kLarge, false);
                        Message message = make(group, data.data());
                        message.timeout_ns = 150'000'000;
                        absl::Status status;
                        for (int i = 0; i < 1000 && status.ok(); ++i)
                          status = Do(group, message, asynchronous);
                        given_up = true;
                        if (FieldsOf(status).rank != culprit)
                          return "blames the wrong rank: " + Text(status);
                        return Expect(status, WEFT_TIMEOUT, words);
                      }),
            "");
}

TEST(MessageTimeout, NamesThePeerTheTagAndWhatThePeerDidLast) {
  for (const bool asynchronous : {false, true}) {
    ExpectTimeout(
        asynchronous, [](ProcessGroup&, char* data) { return RecvOf(data, 10, 1, 77); },
        {"recv of 10 uint8 with tag 77 on group dp: rank 1 (host ", "last call barrier #1",
         "did not send one to rank 0 within 0.15 s"},
        1);
    ExpectTimeout(
        asynchronous, [](ProcessGroup&, char* data) { return SendOf(data, kLarge, 1, 78); },
        {"send of 1048576 uint8 with tag 78", "rank 1 (host ",
         "has not received it from rank 0 within 0.15 s"},
        1);
    ExpectTimeout(
        asynchronous,
        [](ProcessGroup&, char* data) { return RecvOf(data, 10, WEFT_ANY_SOURCE, 79); },
        {"with tag 79", "no rank sent one to rank 0 within 0.15 s"}, -1);
    ExpectTimeout(
        asynchronous, [](ProcessGroup&, char*) { return ProbeOf(1, WEFT_ANY_TAG); },
        {"probe with any tag on group dp: rank 1 (host ",
         "did not send one to rank 0 within 0.15 s"},
        1);
    // Small ones return until the channel is full.
    ExpectTimeout(
        asynchronous, [](ProcessGroup&, char* data) { return SendOf(data, 4096, 1, 80); },
        {"send of 4096 uint8 with tag 80", "has not received it from rank 0 within"}, 1);
  }
}

TEST(MessageTimeout, ALargeMessageToOneselfNeedsItsReceive) {
  for (const bool heap : {false, true}) {
    EXPECT_EQ(OnThreads(1,
                        [&](ProcessGroup& group) -> std::string {
                          MessageBuffer data(kLarge, heap);
                          Message send = SendOf(data.data(), kLarge, 0, 3);
                          send.timeout_ns = 50'000'000;
                          return Expect(group.Run(send), WEFT_TIMEOUT, {"rank 0 (host ", "tag 3"});
                        }),
              "");
  }
}

#ifndef WEFT_SANITIZE
// What nobody asks for is put aside, but not without end: then the sender waits.
TEST(MessageTimeout, TellsASenderWhoseMessagesPileUp) {
  EXPECT_EQ(OnThreads(2,
                      [](ProcessGroup& group) -> std::string {
                        MessageBuffer data(4096, false);
                        if (group.rank() == 1) {
                          return Expect(group.Run(RecvOf(data.data(), 1, 0, 2)), WEFT_TIMEOUT,
                                        {"send of 4096 uint8 with tag 1"});
                        }
                        Message send = SendOf(data.data(), 4096, 1, 1);
                        send.timeout_ns = 500'000'000;
                        size_t sent_bytes = 0;
                        absl::Status status = group.Run(send);
                        for (; status.ok() && sent_bytes < size_t{256} << 20; sent_bytes += 4096)
                          status = group.Run(send);
                        if (sent_bytes < size_t{50} << 20)
                          return "only " + std::to_string(sent_bytes);
                        return Expect(status, WEFT_TIMEOUT, {"has not received it"});
                      }),
            "");
}
#endif

// What it had sent before is received; what it has not sent is refused.
TEST(RankThatLeft, DeliversWhatItHadSentAndIsNamedAfterwards) {
  for (const bool any : {false, true}) {
    EXPECT_EQ(
        OnThreads(2,
                  [&](ProcessGroup& group) -> std::string {
                    MessageBuffer data(3000, false);
                    data.Fill(5);
                    if (group.rank() == 0) {
                      for (uint64_t tag = 0; tag < 4; ++tag) {
                        const absl::Status status = group.Run(SendOf(data.data(), 3000, 1, tag));
                        if (!status.ok()) return Text(status);
                      }
                      return "";
                    }
                    const int source = any ? WEFT_ANY_SOURCE : 0;
                    for (const uint64_t tag : {3, 0, 2, 1}) {
                      usleep(tag == 3 ? 200'000 : 0);  // it has left by then
                      MessageBuffer out(3000, false);
                      const absl::Status status = group.Run(RecvOf(out.data(), 3000, source, tag));
                      if (!status.ok()) return Text(status);
                      if (!out.Compare(5).empty()) return out.Compare(5);
                    }
                    return Expect(
                        group.Run(RecvOf(data.data(), 3000, source, 0)), WEFT_PEER_LOST,
                        {any ? "all other ranks have left" : "rank 0 has left the group"});
                  }),
        "");
  }
}

// A program that asks again and again is told as one that waits: it finds what was sent before, and then an error.
TEST(RankThatLeft, IsNamedToWhoAsksAgainAndAgain) {
  for (const bool any : {false, true}) {
    EXPECT_EQ(OnThreads(2,
                        [&](ProcessGroup& group) -> std::string {
                          char data[8] = {};
                          if (group.rank() == 0) return Text(group.Run(SendOf(data, 8, 1, 3)));
                          const Message probe = ProbeOf(any ? WEFT_ANY_SOURCE : 0, WEFT_ANY_TAG);
                          absl::StatusOr<bool> found = false;
                          const int64_t start_ns = MonotonicNs();
                          while (found.ok() && MonotonicNs() - start_ns < 20'000'000'000) {
                            found = group.TryProbe(probe);
                            if (!found.ok() || !*found) continue;
                            const absl::Status came = group.Run(RecvOf(data, 8, 0, WEFT_ANY_TAG));
                            if (!came.ok()) return Text(came);
                          }
                          if (group.stats().messages != 1) return "it has not come";
                          return Expect(
                              found.status(), WEFT_PEER_LOST,
                              {any ? "all other ranks have left" : "rank 0 has left the group"});
                        }),
              "");
  }
}

TEST(RankThatLeft, CannotBeSentTo) {
  EXPECT_EQ(OnThreads(3,
                      [](ProcessGroup& group) -> std::string {
                        if (group.rank() == 0) return "";
                        MessageBuffer data(kLarge, true);
                        const int64_t start_ns = MonotonicNs();
                        absl::Status status;
                        while (status.ok() && MonotonicNs() - start_ns < 10'000'000'000)
                          status =
                              group.Run(SendOf(data.data(), group.rank() == 1 ? 10 : kLarge, 0));
                        if (FieldsOf(status).rank != 0)
                          return "blames the wrong rank: " + Text(status);
                        return Expect(status, WEFT_PEER_LOST, {"rank 0 has left the group"});
                      }),
            "");
}

TEST(RankThatLeft, DoesNotKeepOthersFromSending) {
  EXPECT_EQ(OnThreads(3,
                      [](ProcessGroup& group) -> std::string {
                        char data[10] = {};
                        if (group.rank() == 1) return "";
                        if (group.rank() == 2) {
                          usleep(100'000);
                          return Text(group.Run(SendOf(data, 10, 0)));
                        }
                        return Text(group.Run(RecvOf(data, 10, WEFT_ANY_SOURCE)));
                      }),
            "");
}

TEST(MessageAbort, EndsEveryMessageOnEveryRank) {
  for (const bool asynchronous : {false, true}) {
    EXPECT_EQ(
        OnThreads(4,
                  [&](ProcessGroup& group) -> std::string {
                    MessageBuffer data(kLarge, group.rank() == 1);
                    if (group.rank() == 3) {
                      usleep(50'000);
                      group.Abort("enough");
                      return Expect(group.Run(SendOf(data.data(), 1, 0)), WEFT_ABORTED, {"enough"});
                    }
                    const Message messages[] = {RecvOf(data.data(), 10, 3),
                                                SendOf(data.data(), kLarge, 3),
                                                RecvOf(data.data(), 10, WEFT_ANY_SOURCE)};
                    const int64_t start_ns = MonotonicNs();
                    const absl::Status status = Do(group, messages[group.rank()], asynchronous);
                    if (MonotonicNs() - start_ns > 5'000'000'000) return "the abort came late";
                    return Expect(status, WEFT_ABORTED, {"rank 3", "enough"});
                  }),
        "");
  }
}

// One rank closes with messages under way: they end here, and at the others with its name.
TEST(MessageClose, EndsWhatIsUnderWay) {
  std::atomic<int> callbacks{0};
  EXPECT_EQ(
      OnThreads(
          3,
          [&](ProcessGroup& group) -> std::string {
            MessageBuffer data(kLarge, true), out(kLarge, false);
            std::vector<WorkRef> works;
            for (uint64_t tag = 0; tag < 20; ++tag) {
              const Message messages[] = {SendOf(data.data(), kLarge, (group.rank() + 1) % 3, tag),
                                          RecvOf(out.data(), kLarge, 0, 100 + tag)};
              for (const Message& message : messages) {
                auto work = group.Start(message);
                // Rank 0 may have gone already.
                if (!work.ok())
                  return group.rank() > 0 ? Expect(work.status(), WEFT_ABORTED) : "refused";
                works.push_back(*work);
              }
              works.back()->OnComplete(
                  [&](const absl::Status& status) { callbacks += status.ok() ? 100 : 1; });
            }
            if (group.rank() == 0) {
              group.Close();
              for (const WorkRef& work : works) {
                if (!work->Test()) return "a message goes on after the group was closed";
              }
              return Expect(group.Run(SendOf(data.data(), 1, 1)), WEFT_INVALID_USAGE, {"closed"});
            }
            for (const WorkRef& work : works) {
              std::string problem = Expect(work->Wait(0), WEFT_ABORTED, {"rank 0", "closed"});
              if (!problem.empty()) return problem;
            }
            return "";
          }),
      "");
  EXPECT_GE(callbacks, 20);
}

// A thread waits in a blocking receive while another one closes the group.
TEST(MessageClose, WakesABlockingReceive) {
  EXPECT_EQ(OnThreads(2,
                      [](ProcessGroup& group) -> std::string {
                        if (group.rank() == 1) return "";
                        absl::Status status;
                        char data[1];
                        std::thread waiter(
                            [&] { status = group.Run(RecvOf(data, 1, WEFT_ANY_SOURCE, 5)); });
                        usleep(30'000);
                        group.Close();
                        waiter.join();
                        // Unless rank 1's leaving was seen first.
                        return ResultOf(status) == WEFT_PEER_LOST
                                   ? ""
                                   : Expect(status, WEFT_ABORTED, {"closed"});
                      }),
            "");
}

}  // namespace
}  // namespace weft::test::message_failure_test
