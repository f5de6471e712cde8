// Ranks that count their arrivals at one word, the last of which reduces slots for all: run with WEFT_COMBINE=1.
#include <cstdint>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/status.h"
#include "collective_case.h"
#include "rank_threads.h"

namespace weft::test::last_arriver_test {
namespace {

constexpr int64_t kPatienceNs = 60'000'000'000;

absl::Status RunEitherWay(ProcessGroup& group, const Collective& call, bool asynchronous) {
  if (!asynchronous) return group.Run(call);
  auto work = group.Start(call);
  return work.ok() ? (*work)->Wait(0) : work.status();
}

class LastArriver : public ::testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(Ranks, LastArriver, ::testing::Values(2, 3, 5, 8));

// Whoever comes last: the asynchronous one announces the operation from another place than the others.
TEST_P(LastArriver, GivesAllRanksTheSumThatTheLastOneMade) {
  constexpr size_t kCount = 500;
  const int ranks = GetParam();
  EXPECT_EQ(
      RunThreadRanks(
          ranks, {.name = "last_arriver", .timeout_ns = kPatienceNs},
          [&](ProcessGroup& group) -> std::string {
            const float first = static_cast<float>(ranks * (ranks - 1) / 2);
            for (int i = 0; i < 200; ++i) {
              std::vector<float> data(kCount, static_cast<float>(group.rank() + i));
              Collective call{.kind = OpKind::kAllReduce, .dtype = WEFT_FLOAT32, .count = kCount};
              call.in = call.out = data.data();
              const absl::Status status = RunEitherWay(group, call, i % ranks == group.rank());
              if (!status.ok()) return std::string(status.message());
              for (const float value : data)
                if (value != first + static_cast<float>(ranks * i)) return "a wrong sum";
            }
            return "";
          }),
      "");
}

// Announced ahead, more of them than there are slots: the last rank reduces operations that it has not begun.
TEST_P(LastArriver, IsDoneAheadOfOlderOperations) {
  constexpr size_t kWorks = 12;
  constexpr size_t kCount = 300;
  const int ranks = GetParam();
  EXPECT_EQ(RunThreadRanks(ranks, {.name = "ahead", .timeout_ns = kPatienceNs},
                           [&](ProcessGroup& group) -> std::string {
                             for (int round = 0; round < 20; ++round) {
                               std::vector<std::vector<int32_t>> data(kWorks);
                               std::vector<std::shared_ptr<Work>> works;
                               for (size_t i = 0; i < kWorks; ++i) {
                                 data[i].assign(kCount, static_cast<int32_t>(i) + group.rank());
                                 Collective call{.kind = OpKind::kAllReduce,
                                                 .dtype = WEFT_INT32,
                                                 .op = WEFT_MAX,
                                                 .count = i % 3 == 2 ? 4 : kCount};
                                 call.in = call.out = data[i].data();
                                 auto work = group.Start(call);
                                 if (!work.ok()) return std::string(work.status().message());
                                 works.push_back(*work);
                               }
                               for (size_t i = 0; i < kWorks; ++i) {
                                 const absl::Status status = works[i]->Wait(0);
                                 if (!status.ok()) return std::string(status.message());
                                 if (data[i][3] != static_cast<int32_t>(i) + ranks - 1)
                                   return "a wrong maximum in operation " + std::to_string(i);
                               }
                             }
                             return "";
                           }),
            "");
}

// Operations that the last arriver reduces, and all others in any order, with everything that a rank alone knows drawn by each.
TEST_P(LastArriver, MayFollowAnything) {
  constexpr OpKind kKinds[] = {OpKind::kAllReduce, OpKind::kAllReduce,     OpKind::kReduce,
                               OpKind::kAllGather, OpKind::kReduceScatter, OpKind::kAllToAll,
                               OpKind::kScan,      OpKind::kExscan,        OpKind::kBroadcast,
                               OpKind::kBarrier};
  constexpr size_t kCounts[] = {0, 3, 12, 500, 1021, 2000, 40'000};
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  EXPECT_EQ(RunThreadRanks(GetParam(), {.name = "mixed", .timeout_ns = kPatienceNs},
                           [&](ProcessGroup& group) -> std::string {
                             std::mt19937_64 alike(seed);
                             for (uint64_t step = 0; step < 150; ++step) {
                               CollectiveCase test;
                               test.kind = kKinds[alike() % std::size(kKinds)];
                               test.count = kCounts[alike() % std::size(kCounts)];
                               test.op = alike() % 4 == 0 ? kOpPremulSum : WEFT_SUM;
                               test.root =
                                   static_cast<int>(alike() % static_cast<uint64_t>(group.size()));
                               test.seed = seed + step;
                               if (test.kind == OpKind::kBarrier) test.count = 0;
                               const auto choice = LocalChoice::FromSeed(seed ^ step, group.rank());
                               std::string problem = RunCase(group, test, choice);
                               if (!problem.empty()) return problem;
                             }
                             return "";
                           }),
            "");
}

TEST_P(LastArriver, OfDifferentCallsIsAMismatchOnAllRanks) {
  EXPECT_EQ(RunThreadRanks(GetParam(), {.name = "outlier", .timeout_ns = kPatienceNs},
                           [](ProcessGroup& group) -> std::string {
                             std::vector<float> data(500, 1);
                             Collective call{
                                 .kind = OpKind::kAllReduce, .dtype = WEFT_FLOAT32, .count = 500};
                             if (group.rank() == group.size() - 1) call.op = WEFT_MAX;
                             call.in = call.out = data.data();
                             const absl::Status status = group.Run(call);
                             if (ResultOf(status) != WEFT_MISMATCH) return status.ToString();
                             return data[0] == 1 ? "" : "the result was written";
                           }),
            "");
}

TEST(LastArriverReduction, IsExplained) {
  EXPECT_EQ(RunThreadRanks(3, {.name = "explained"},
                           [](ProcessGroup& group) -> std::string {
                             const std::string words = "by the last rank to arrive, for all";
                             const auto says = [&](const Collective& call, BufferKind buffers) {
                               return group.Explain(call, buffers).find(words) != std::string::npos;
                             };
                             Collective call{
                                 .kind = OpKind::kAllReduce, .dtype = WEFT_FLOAT32, .count = 64};
                             if (!says(call, BufferKind::kPrivate)) return "not said";
                             if (says(call, BufferKind::kShared)) return "said of a shared result";
                             call.count = 1 << 20;
                             if (says(call, BufferKind::kPrivate)) return "said of a large one";
                             call.count = 64;
                             call.kind = OpKind::kReduce;
                             return says(call, BufferKind::kPrivate) ? "said of a rooted one" : "";
                           }),
            "");
}

}  // namespace
}  // namespace weft::test::last_arriver_test
