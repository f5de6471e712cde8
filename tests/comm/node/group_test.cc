// Groups apart from their numbers: splitting, asynchronous works, closing, aborting, several threads.
#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/status.h"
#include "base/wait.h"
#include "comm/group/split_wish.h"
#include "comm/node/heap.h"
#include "comm/node/make_group.h"
#include "rank_threads.h"
#include "tests/support/leak_check.h"

namespace weft::test {
namespace {

Collective Sum(std::vector<int32_t>& data) {
  Collective call{.kind = OpKind::kAllReduce, .dtype = WEFT_INT32, .count = data.size()};
  call.in = call.out = data.data();
  return call;
}

std::string Text(const absl::Status& status) {
  return std::string(status.message());
}

class Groups : public ::testing::TestWithParam<int> {};

TEST_P(Groups, SplitByColorOrdersByKeyThenParentRank) {
  EXPECT_EQ(RunThreadRanks(GetParam(), {.name = "whole"},
                           [](ProcessGroup& group) -> std::string {
                             const int color = group.rank() % 2;
                             auto part = group.Split(color, -group.rank(), {.name = ""});
                             if (!part.ok()) return Text(part.status());
                             const int members = (group.size() + 1 - color) / 2;
                             if ((*part)->size() != members) return "wrong size";
                             if ((*part)->rank() != members - 1 - group.rank() / 2)
                               return "wrong rank";
                             if ((*part)->name() != "whole." + std::to_string(color))
                               return (*part)->name();
                             std::vector<int32_t> data(5000, group.rank());
                             const absl::Status status = (*part)->Run(Sum(data));
                             if (!status.ok()) return Text(status);
                             int32_t want = 0;
                             for (int rank = color; rank < group.size(); rank += 2)
                               want += rank;
                             (*part)->Close();
                             return data[4999] == want ? "" : "wrong sum";
                           }),
            "");
  EXPECT_EQ(ProcessHeap().live_bytes(), 0u);
}

TEST_P(Groups, SplitWithoutColorTakesPartAndGetsNothing) {
  EXPECT_EQ(RunThreadRanks(GetParam(), {.name = "w"},
                           [](ProcessGroup& group) -> std::string {
                             auto part =
                                 group.Split(group.rank() == 0 ? -1 : 5, 0, {.name = "rest"});
                             if (!part.ok()) return Text(part.status());
                             if ((group.rank() == 0) != (*part == nullptr)) return "wrong handle";
                             if (*part != nullptr) (*part)->Close();
                             return "";
                           }),
            "");
}

// The last rank leaves the split half way: where the others got to, and whether some have the part
// already, is chance.
TEST_P(Groups, SplitThatFailsHalfWayGivesItsSegmentBack) {
  if (GetParam() == 1) GTEST_SKIP() << "one rank waits for nobody";
  for (int round = 0; round < 20; ++round) {
    EXPECT_EQ(RunThreadRanks(GetParam(), {.name = "w"},
                             [](ProcessGroup& group) -> std::string {
                               const int last = group.size() - 1;
                               if (group.rank() != last) {
                                 auto part = group.Split(0, 0, {.name = "part"});
                                 if (part.ok()) return "split without the last rank";
                                 const bool aborted = ResultOf(part.status()) == WEFT_ABORTED;
                                 return aborted ? "" : Text(part.status());
                               }
                               // The first of Split's two exchanges: a color and a key of each rank.
                               const int32_t wish[2] = {0, 0};
                               std::vector<int32_t> wishes(2 * static_cast<size_t>(group.size()));
                               Collective gather{.kind = OpKind::kAllGather,
                                                 .count = sizeof(wish),
                                                 .purpose = {.signature_salt = kSplitWishSalt}};
                               gather.in = wish;
                               gather.out = wishes.data();
                               const absl::Status status = group.Run(gather);
                               group.Abort("half way");
                               return Text(status);
                             }),
              "");
    EXPECT_EQ(ProcessHeap().live_bytes(), 0u) << "round " << round;
  }
}

// The group's own deadline is 30 minutes.
TEST_P(Groups, SplitThatARankDoesNotComeToEndsByTheDeadlineOfMakingTheGroup) {
  if (GetParam() == 1) GTEST_SKIP() << "one rank waits for nobody";
  std::atomic<int> ended{0};
  EXPECT_EQ(RunThreadRanks(GetParam(), {.name = "w", .timeout_ns = 1'800'000'000'000},
                           [&](ProcessGroup& group) -> std::string {
                             const int others = group.size() - 1;
                             if (group.rank() == others) {
                               while (ended.load() < others)
                                 std::this_thread::yield();
                               return "";
                             }
                             auto part =
                                 group.Split(0, 0, {.name = "part", .init_timeout_ns = 50'000'000});
                             ++ended;
                             return ResultOf(part.status()) == WEFT_TIMEOUT ? ""
                                                                            : Text(part.status());
                           }),
            "");
  EXPECT_EQ(ProcessHeap().live_bytes(), 0u);
}

TEST_P(Groups, CallbacksRunOnceAndMayStartOperations) {
  EXPECT_EQ(RunThreadRanks(GetParam(), {.name = "w"},
                           [](ProcessGroup& group) -> std::string {
                             std::vector<int32_t> first(3000, 1);
                             std::vector<int32_t> second(3000, 2);
                             std::atomic<int> calls{0};
                             WorkRef chained;
                             auto work = group.Start(Sum(first));
                             if (!work.ok()) return Text(work.status());
                             std::atomic<bool> started{false};
                             (*work)->OnComplete([&](const absl::Status& status) {
                               if (status.ok()) {
                                 auto next = group.Start(Sum(second));
                                 if (next.ok()) chained = *next;
                               }
                               ++calls;
                               started = true;
                             });
                             if ((*work)->OnComplete([](const absl::Status&) {}))
                               return "took a second callback";
                             absl::Status status = (*work)->Wait(0);
                             if (!status.ok()) return Text(status);
                             while (!started)
                               std::this_thread::yield();
                             if (chained == nullptr)
                               return "the callback could not start an operation";
                             status = chained->Wait(0);
                             if (!status.ok()) return Text(status);
                             if (calls != 1) return "callback ran more than once";
                             return second[0] == 2 * group.size() ? "" : "wrong sum";
                           }),
            "");
}

TEST_P(Groups, WorksCompleteWithoutAnybodyWaiting) {
  EXPECT_EQ(RunThreadRanks(GetParam(), {.name = "w"},
                           [](ProcessGroup& group) -> std::string {
                             std::vector<int32_t> data(200000, 1);
                             std::atomic<bool> done{false};
                             {
                               auto work = group.Start(Sum(data));
                               if (!work.ok()) return Text(work.status());
                               (*work)->OnComplete([&](const absl::Status&) { done = true; });
                             }
                             const int64_t start_ns = MonotonicNs();
                             while (!done) {
                               if (MonotonicNs() - start_ns > 30'000'000'000)
                                 return "not within 30 s";
                               std::this_thread::yield();
                             }
                             return data[199999] == group.size() ? "" : "wrong sum";
                           }),
            "");
}

// Two threads of each rank use one group; blocking calls keep the group's order per rank, and the same
// operation from both makes the order irrelevant.
TEST_P(Groups, SeveralThreadsOfARankAreServedOneAfterTheOther) {
  EXPECT_EQ(RunThreadRanks(GetParam(), {.name = "w"},
                           [](ProcessGroup& group) -> std::string {
                             std::string problems[2];
                             const auto body = [&](int which) {
                               std::vector<int32_t> data(1500);
                               for (int i = 0; i < 200; ++i) {
                                 std::fill(data.begin(), data.end(), 3);
                                 absl::Status status;
                                 if (i % 2 == 0) {
                                   status = group.Run(Sum(data));
                                 } else {
                                   auto work = group.Start(Sum(data));
                                   status = work.ok() ? (*work)->Wait(0) : work.status();
                                 }
                                 if (!status.ok()) problems[which] = Text(status);
                                 if (data[1499] != 3 * group.size()) problems[which] = "wrong sum";
                                 if (!problems[which].empty()) return;
                               }
                             };
                             std::thread other(body, 1);
                             body(0);
                             other.join();
                             return problems[0] + problems[1];
                           }),
            "");
}

TEST_P(Groups, AbortEndsWaitingRanksAndLaterCalls) {
  if (GetParam() == 1) GTEST_SKIP() << "one rank waits for nobody";
  EXPECT_EQ(
      RunThreadRanks(GetParam(), {.name = "w"},
                     [](ProcessGroup& group) -> std::string {
                       std::vector<int32_t> data(100000, 1);
                       if (group.rank() == 0) {
                         group.Abort("enough");
                         group.Abort("again");
                         if (ResultOf(group.error()) != WEFT_ABORTED)
                           return "error() does not say so";
                       }
                       const int64_t start_ns = MonotonicNs();
                       const absl::Status first = group.Run(Sum(data));
                       if (ResultOf(first) != WEFT_ABORTED) return "first: " + Text(first);
                       if (Text(first).find("aborted by rank 0: enough") == std::string::npos) {
                         return Text(first);
                       }
                       if (MonotonicNs() - start_ns > 10'000'000'000) return "took 10 s";
                       const absl::Status second = group.Run(Sum(data));
                       if (ResultOf(second) != WEFT_ABORTED) return "second: " + Text(second);
                       auto third = group.Start(Sum(data));
                       return third.ok() ? "started on an aborted group" : "";
                     }),
      "");
}

TEST_P(Groups, CloseEndsWhatIsUnderWay) {
  if (GetParam() == 1) GTEST_SKIP() << "one rank waits for nobody";
  std::atomic<bool> closed{false};
  EXPECT_EQ(RunThreadRanks(GetParam(), {.name = "w"},
                           [&](ProcessGroup& group) -> std::string {
                             if (group.rank() != 0) {
                               const int64_t start_ns = MonotonicNs();
                               while (!closed && MonotonicNs() - start_ns < 30'000'000'000) {
                                 std::this_thread::yield();
                               }
                               return "";
                             }
                             std::vector<int32_t> data(100000, 1);
                             std::vector<WorkRef> works;
                             for (int i = 0; i < 40; ++i) {
                               auto work = group.Start(Sum(data));
                               if (!work.ok()) return Text(work.status());
                               works.push_back(*work);
                             }
                             group.Close();
                             closed = true;
                             for (const WorkRef& work : works) {
                               if (!work->Test()) return "still under way";
                               if (work->status().ok())
                                 return "an operation without peers succeeded";
                             }
                             const absl::Status late = group.Run(Sum(data));
                             return ResultOf(late) == WEFT_INVALID_USAGE
                                        ? ""
                                        : "closed group: " + Text(late);
                           }),
            "");
  EXPECT_EQ(ProcessHeap().live_bytes(), 0u);
}

TEST_P(Groups, NothingIsLeftAfterwards) {
  const Holdings before = Holdings::Now();
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(RunThreadRanks(GetParam(), {.name = "w"},
                             [](ProcessGroup& group) -> std::string {
                               std::vector<int32_t> data(300000, 1);
                               auto part = group.Split(group.rank() % 2, 0, {.name = "half"});
                               if (!part.ok()) return Text(part.status());
                               auto work = group.Start(Sum(data));
                               if (!work.ok()) return Text(work.status());
                               const absl::Status status = (*work)->Wait(0);
                               (*part)->Close();
                               return Text(status);
                             }),
              "");
  }
  EXPECT_EQ(Holdings::Now().Since(before), "");
}

INSTANTIATE_TEST_SUITE_P(RankSet, Groups, ::testing::ValuesIn(kThreadRanks));

// Ranks that leave at once hand the last block from one to the other; nobody comes after them.
TEST_P(Groups, LeavingAtOnceLeavesNothing) {
  for (int round = 0; round < 30; ++round) {
    ASSERT_EQ(RunThreadRanks(GetParam(), {.name = "leaving"},
                             [](ProcessGroup& group) -> std::string {
                               std::vector<int32_t> data(5000, 1);
                               return Text(group.Run(Sum(data)));
                             }),
              "");
    ASSERT_EQ(ProcessHeap().live_bytes(), 0u) << "round " << round;
  }
}

TEST(Group, ForkedChildIsTold) {
  auto groups = CreateLocalGroups(1, {.name = "parent"});
  ASSERT_TRUE(groups.ok());
  const pid_t child = fork();
  if (child == 0) {
    const absl::Status status = (*groups)[0]->Run({.kind = OpKind::kBarrier});
    const absl::Status made = CreateLocalGroups(1, {.name = "child"}).status();
    _exit(ResultOf(status) == WEFT_FORKED && ResultOf(made) == WEFT_FORKED ? 42 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 42);
  EXPECT_TRUE((*groups)[0]->Run({.kind = OpKind::kBarrier}).ok());
  (*groups)[0]->Close();
}

TEST(Group, RefusesImpossibleSizes) {
  EXPECT_EQ(ResultOf(CreateLocalGroups(0, {.name = "x"}).status()), WEFT_UNSUPPORTED);
  EXPECT_EQ(ResultOf(CreateLocalGroups(65, {.name = "x"}).status()), WEFT_UNSUPPORTED);
}

}  // namespace
}  // namespace weft::test
