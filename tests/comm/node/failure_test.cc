// What every rank is told when the ranks disagree or one does not come: same sentence, right culprit,
// no wrong Ok.
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include <absl/strings/str_cat.h>
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
  Collective outlier;  // what the last rank calls instead
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
      {"numerics",
       base,
       with([](Collective& c) { c.numerics = WEFT_NUMERICS_FAST; }, base),
       {"numerics canonical", "numerics fast"}},
      {"numerics of a call whose data is in its line",
       with([](Collective& c) { c.count = 2; }, base),
       with([](Collective& c) { c.count = 2, c.numerics = WEFT_NUMERICS_FAST; }, base),
       {"numerics canonical", "numerics fast"}},
      {"numerics of a call in a slot",
       with([](Collective& c) { c.count = 100; }, base),
       with([](Collective& c) { c.count = 100, c.numerics = WEFT_NUMERICS_FAST; }, base),
       {"numerics canonical", "numerics fast"}},
      {"numerics of a barrier",
       Collective{.kind = OpKind::kBarrier},
       Collective{.kind = OpKind::kBarrier, .numerics = WEFT_NUMERICS_FAST},
       {"numerics canonical", "numerics fast"}},
      {"root", broadcast, with([](Collective& c) { c.root = 1; }, broadcast), {"root 0", "root 1"}},
  };
}

class Disagreement : public TestWithParam<int> {};

// What RunThreadRanks says where a rank came so late that the others could not tell who is alone with its call.
constexpr const char* kNobody = "blames nobody";

// The last rank makes another call than the others. `said`: the sentence of each rank.
std::string Disagree(int size, const Calls& calls, bool asynchronous,
                     std::vector<std::string>& said) {
  return RunThreadRanks(
      size, {.name = "dp", .timeout_ns = 20'000'000'000}, [&](ProcessGroup& group) -> std::string {
        std::vector<char> in(size_t{8} * 5000), out(size_t{8} * 5000 * 8);
        // A good one first, so that the failing one is #2.
        if (!group.Run({.kind = OpKind::kBarrier}).ok()) return "the barrier failed";
        Collective call = group.rank() == size - 1 ? calls.outlier : calls.majority;
        call.in = in.data();
        call.out = out.data();
        absl::Status status;
        if (asynchronous) {
          auto work = group.Start(call);
          status = work.ok() ? (*work)->Wait(0) : work.status();
        } else {
          status = group.Run(call);
        }
        if (ResultOf(status) != WEFT_MISMATCH) return "got: " + std::string(status.message());
        said[static_cast<size_t>(group.rank())] = std::string(status.message());
        const int blamed = FieldsOf(status).rank;
        if (blamed != (size > 2 ? size - 1 : -1))
          return blamed == -1 ? kNobody : "blames the wrong rank";
        if (FieldsOf(status).sequence != 2) return "wrong sequence";
        const absl::Status later = group.Run({.kind = OpKind::kBarrier});
        return ResultOf(later) == WEFT_ABORTED ? "" : "the group still works";
      });
}

TEST_P(Disagreement, IsNamedOnEveryRankAndNobodyGetsOk) {
  const int size = GetParam();
  for (const Calls& calls : DifferentCalls()) {
    for (const bool asynchronous : {false, true}) {
      SCOPED_TRACE(std::string(calls.name) + (asynchronous ? ", asynchronous" : ""));
      std::vector<std::string> said(static_cast<size_t>(size));
      // A busy machine may keep a rank from its call for longer than the others listen.
      std::string problem = kNobody;
      for (int attempt = 0; attempt < 5 && problem == kNobody; ++attempt)
        problem = Disagree(size, calls, asynchronous, said);
      EXPECT_EQ(problem, "");
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
            std::vector<float> in(64), out(size_t{64} * 8);
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

// One of the others comes only when they have been told: what they disagree in does not wait for
// it.
TEST_P(Disagreement, IsFoundThoughARankIsMissing) {
  const int size = GetParam();
  if (size < 3) return;
  for (const int late : {0, size - 1}) {
    std::atomic<int> told{0};
    const int outlier = late == 0 ? size - 1 : 0;
    EXPECT_EQ(RunThreadRanks(
                  size, {.name = "dp", .timeout_ns = 20'000'000'000},
                  [&](ProcessGroup& group) -> std::string {
                    Collective call{.kind = OpKind::kAllReduce, .dtype = WEFT_FLOAT32, .count = 64};
                    if (group.rank() == outlier) call.count = 65;
                    std::vector<float> data(call.count);
                    call.in = call.out = data.data();
                    const int64_t start_ns = MonotonicNs();
                    while (group.rank() == late && told < size - 1 &&
                           MonotonicNs() - start_ns < 30'000'000'000)
                      std::this_thread::yield();
                    const absl::Status status = group.Run(call);
                    ++told;
                    const std::string text(status.message());
                    if (ResultOf(status) != WEFT_MISMATCH) return "got: " + text;
                    return text.find("rank " + std::to_string(outlier)) != std::string::npos ? ""
                                                                                             : text;
                  }),
              "");
  }
}

// A rank that does not come is named at the deadline of rank 0, which comes last of the others: who is late on a busy machine would be
// named too. A wait that was started is told the same, and has a deadline of its own much later.
absl::Status AwaitMissing(ProcessGroup& group, std::atomic<int>* arrived, int others) {
  Collective barrier{.kind = OpKind::kBarrier};
  if (group.rank() != 0) {
    auto work = group.Start(barrier);
    ++*arrived;
    return work.ok() ? (*work)->Wait(0) : work.status();
  }
  const int64_t start_ns = MonotonicNs();
  while (*arrived < others && MonotonicNs() - start_ns < 30'000'000'000)
    std::this_thread::yield();
  barrier.timeout_ns = 150'000'000;
  return group.Run(barrier);
}

// All but the last rank wait; the last one does nothing until they have given up.
TEST_P(Disagreement, MissingRankIsNamedAtTheDeadline) {
  const int size = GetParam();
  std::atomic<int> waiting{size - 1};
  std::atomic<int> arrived{0};
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
                  const absl::Status status = AwaitMissing(group, &arrived, size - 2);
                  --waiting;
                  std::string text(status.message());
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

// An abort gives way to what was found beside it; that stays, whatever comes later.
TEST(Cause, IsTheFirstThatIsOne) {
  auto groups = CreateLocalGroups(3, {.name = "dp"});
  ASSERT_TRUE(groups.ok()) << groups.status();
  const auto expect = [&](weft_result_t result, const char* words) {
    for (const auto& group : *groups) {
      EXPECT_EQ(ResultOf(group->error()), result) << group->error();
      EXPECT_NE(group->error().message().find(words), std::string::npos) << group->error();
    }
  };
  (*groups)[0]->Abort("first");
  (*groups)[1]->Abort("second");
  expect(WEFT_ABORTED, "first");
  // The rank that aborted has left its record to be read.
  (*groups)[0]->Fail(MakeError(WEFT_MISMATCH, "found by the one who aborted"));
  expect(WEFT_ABORTED, "first");
  (*groups)[2]->Fail(MakeError(WEFT_TIMEOUT, {.world_rank = 1}, "found elsewhere"));
  expect(WEFT_TIMEOUT, "found elsewhere");
  EXPECT_EQ(FieldsOf((*groups)[0]->error()).rank, 1);
  (*groups)[1]->Fail(MakeError(WEFT_MISMATCH, "found later"));
  (*groups)[1]->Abort("third");
  expect(WEFT_TIMEOUT, "found elsewhere");
  for (const auto& group : *groups)
    group->Close();
}

// Ranks of a group that was split from another have two numbers, and both are said.
TEST(SplitGroup, IsNamedWithItsRanksAndTheirWorldRanks) {
  constexpr int kSize = 6;
  std::atomic<int> waiting{2};
  std::atomic<int> arrived{0};
  EXPECT_EQ(
      RunThreadRanks(
          kSize, {.name = "world", .timeout_ns = 20'000'000'000},
          [&](ProcessGroup& world) -> std::string {
            auto tp = world.Split(world.rank() / 3, world.rank(), {.name = "tp"});
            auto dp = world.Split(world.rank() / 3, -world.rank(), {.name = "dp"});
            if (!tp.ok() || !dp.ok()) return "could not split";
            absl::Status mismatch;
            absl::Status late;
            if (world.rank() >= 3) {
              float data[8] = {};
              Collective call{.kind = OpKind::kAllReduce,
                              .dtype = WEFT_FLOAT32,
                              .count = world.rank() == 4 ? size_t{4} : size_t{8}};
              call.in = call.out = data;
              mismatch = (*tp)->Run(call);
              if (world.rank() != 4) {
                late = AwaitMissing(**dp, &arrived, 1);
              } else {
                const int64_t start_ns = MonotonicNs();
                while (waiting > 0 && MonotonicNs() - start_ns < 30'000'000'000)
                  std::this_thread::yield();
                late = (*dp)->Run({.kind = OpKind::kBarrier});
              }
              --waiting;
            }
            (*tp)->Close();
            (*dp)->Close();
            if (world.rank() < 3) return "";
            const auto expect = [](const absl::Status& status, weft_result_t result, int rank,
                                   const std::vector<std::string>& words) -> std::string {
              const std::string text(status.message());
              if (ResultOf(status) != result) return "got: " + text;
              if (FieldsOf(status).rank != rank || FieldsOf(status).world_rank != 4)
                return "blames another: " + text;
              for (const std::string& word : words) {
                if (text.find(word) == std::string::npos)
                  return absl::StrCat(word, " is not in: ", text);
              }
              return "";
            };
            std::string problem = expect(
                mismatch, WEFT_MISMATCH, 1,
                {"rank 1 of group tp (world rank 4) called all_reduce (sum) of 4 float32",
                 "ranks 0, 2 of group tp (world ranks 3, 5) called all_reduce (sum) of 8 float32"});
            if (!problem.empty()) return problem;
            return expect(late, WEFT_TIMEOUT, 1,
                          {"on group dp: rank 1 of group dp (world rank 4, host ",
                           "did not arrive within 0.15 s"});
          }),
      "");
}

INSTANTIATE_TEST_SUITE_P(RankSet, Disagreement, ::testing::Values(2, 3, 4, 5, 8));

}  // namespace
}  // namespace weft::test
