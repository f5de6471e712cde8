// What every rank is told when the ranks disagree or one does not come: same sentence, right culprit,
// no wrong Ok.
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/status.h"
#include "base/wait.h"
#include "rank_threads.h"

namespace weft::test {
namespace {

using ::testing::TestWithParam;

struct Calls {
  const char* name;
  Collective majority;
  Collective odd;  // what the last rank calls instead
  std::vector<std::string> words;
};

std::vector<Calls> DifferentCalls() {
  const Collective base{
      .kind = OpKind::kAllReduce, .dtype = WEFT_FLOAT32, .op = WEFT_SUM, .count = 4096};
  const auto with = [&](auto change, Collective from) {
    change(from);
    return from;
  };
  const Collective broadcast{.kind = OpKind::kBroadcast, .dtype = WEFT_FLOAT32, .count = 100};
  return {
      {"count",
       base,
       with([](Collective& c) { c.count = 4100; }, base),
       {"4096 float32", "4100 float32"}},
      {"count of another class",
       base,
       with([](Collective& c) { c.count = 1; }, base),
       {"4096", " 1 float32"}},
      {"dtype of the same size",
       base,
       with([](Collective& c) { c.dtype = WEFT_INT32; }, base),
       {"float32", "int32"}},
      {"op", base, with([](Collective& c) { c.op = WEFT_MAX; }, base), {"(sum)", "(max)"}},
      {"kind",
       base,
       with([](Collective& c) { c.kind = OpKind::kAllGather; }, base),
       {"all_reduce", "all_gather"}},
      {"barrier", base, Collective{.kind = OpKind::kBarrier}, {"all_reduce", "barrier"}},
      {"root", broadcast, with([](Collective& c) { c.root = 1; }, broadcast), {"root 0", "root 1"}},
  };
}

class Disagreement : public TestWithParam<int> {};

TEST_P(Disagreement, IsNamedOnEveryRankAndNobodyGetsOk) {
  const int size = GetParam();
  for (const Calls& calls : DifferentCalls()) {
    for (const bool asynchronous : {false, true}) {
      SCOPED_TRACE(std::string(calls.name) + (asynchronous ? ", asynchronous" : ""));
      std::vector<std::string> said(static_cast<size_t>(size));
      EXPECT_EQ(
          RunThreadRanks(size, {.name = "dp", .timeout_ns = 20'000'000'000},
                         [&](ProcessGroup& group) -> std::string {
                           std::vector<char> in(8 * 5000), out(8 * 5000 * 8);
                           // A good one first, so that the failing one is #2.
                           if (!group.Run({.kind = OpKind::kBarrier}).ok())
                             return "the barrier failed";
                           Collective call = group.rank() == size - 1 ? calls.odd : calls.majority;
                           call.in = in.data();
                           call.out = out.data();
                           absl::Status status;
                           if (asynchronous) {
                             auto work = group.Start(call);
                             status = work.ok() ? (*work)->Wait(0) : work.status();
                           } else {
                             status = group.Run(call);
                           }
                           if (ResultOf(status) != WEFT_MISMATCH)
                             return "got: " + std::string(status.message());
                           said[static_cast<size_t>(group.rank())] = std::string(status.message());
                           if (FieldsOf(status).rank != (size > 2 ? size - 1 : -1))
                             return "blames the wrong rank";
                           if (FieldsOf(status).sequence != 2) return "wrong sequence";
                           const absl::Status later = group.Run({.kind = OpKind::kBarrier});
                           return ResultOf(later) == WEFT_ABORTED ? "" : "the group still works";
                         }),
          "");
      for (const std::string& sentence : said) {
        EXPECT_EQ(sentence, said[0]);
        EXPECT_NE(sentence.find("#2 on group dp"), std::string::npos) << sentence;
        for (const std::string& word : calls.words) {
          EXPECT_NE(sentence.find(word), std::string::npos) << sentence;
        }
      }
    }
  }
}

TEST_P(Disagreement, OrderIsADisagreementToo) {
  const int size = GetParam();
  EXPECT_EQ(
      RunThreadRanks(
          size, {.name = "dp", .timeout_ns = 20'000'000'000},
          [&](ProcessGroup& group) -> std::string {
            std::vector<float> in(64), out(64 * 8);
            Collective first{.kind = OpKind::kAllReduce, .dtype = WEFT_FLOAT32, .count = 64};
            Collective second{.kind = OpKind::kAllGather, .dtype = WEFT_FLOAT32, .count = 64};
            if (group.rank() == 0) std::swap(first, second);
            first.in = in.data();
            first.out = out.data();
            const absl::Status status = group.Run(first);
            return ResultOf(status) == WEFT_MISMATCH ? "" : "got: " + std::string(status.message());
          }),
      "");
}

// All but the last rank wait; the last one does nothing until they have given up.
TEST_P(Disagreement, MissingRankIsNamedAtTheDeadline) {
  const int size = GetParam();
  std::atomic<int> waiting{size - 1};
  EXPECT_EQ(RunThreadRanks(
                size, {.name = "dp"},
                [&](ProcessGroup& group) -> std::string {
                  if (!group.Run({.kind = OpKind::kBarrier}).ok()) return "the barrier failed";
                  if (group.rank() == size - 1) {
                    const int64_t start_ns = MonotonicNs();
                    while (waiting > 0 && MonotonicNs() - start_ns < 30'000'000'000)
                      std::this_thread::yield();
                    const absl::Status late = group.Run({.kind = OpKind::kBarrier});
                    return ResultOf(late) == WEFT_TIMEOUT
                               ? ""
                               : "late rank: " + std::string(late.message());
                  }
                  Collective call{.kind = OpKind::kBarrier};
                  call.timeout_ns = 150'000'000;
                  const absl::Status status = group.Run(call);
                  --waiting;
                  const std::string text(status.message());
                  if (ResultOf(status) != WEFT_TIMEOUT) return "got: " + text;
                  if (FieldsOf(status).rank != size - 1) return "blames the wrong rank: " + text;
                  const std::string want = "rank " + std::to_string(size - 1) + " (host ";
                  if (text.find(want) == std::string::npos) return text;
                  if (text.find("last call barrier #1") == std::string::npos) return text;
                  return text.find("did not arrive within 0.15 s") != std::string::npos ? "" : text;
                }),
            "");
}

TEST_P(Disagreement, RankThatLeftIsNamed) {
  const int size = GetParam();
  EXPECT_EQ(RunThreadRanks(size, {.name = "dp", .timeout_ns = 20'000'000'000},
                           [&](ProcessGroup& group) -> std::string {
                             if (group.rank() == 0) return "";
                             std::vector<float> data(100000);
                             Collective call{.kind = OpKind::kAllReduce,
                                             .dtype = WEFT_FLOAT32,
                                             .count = data.size()};
                             call.in = call.out = data.data();
                             const absl::Status status = group.Run(call);
                             if (ResultOf(status) != WEFT_PEER_LOST)
                               return "got: " + std::string(status.message());
                             return FieldsOf(status).rank == 0 ? "" : "blames the wrong rank";
                           }),
            "");
}

INSTANTIATE_TEST_SUITE_P(RankSet, Disagreement, ::testing::Values(2, 3, 4, 5, 8));

}  // namespace
}  // namespace weft::test
