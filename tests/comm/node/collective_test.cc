// Every core collective against the reference, bitwise, with ranks as threads.
#include <vector>

#include <gtest/gtest.h>

#include "collective_case.h"
#include "comm/node/heap.h"
#include "comm/node/segment.h"
#include "rank_threads.h"
#include "tests/support/leak_check.h"

namespace weft::test {
namespace {

// Sanitizers look for races and bad accesses, which a sample of the cases shows as well.
#ifdef WEFT_SANITIZE
constexpr size_t kEveryNth = 9;
#else
constexpr size_t kEveryNth = 1;
#endif

constexpr OpKind kKinds[] = {OpKind::kAllReduce, OpKind::kReduce, OpKind::kBroadcast,
                             OpKind::kAllGather, OpKind::kReduceScatter};
constexpr weft_dtype_t kDtypes[] = {WEFT_UINT8,   WEFT_INT32,   WEFT_INT64,   WEFT_FLOAT16,
                                    WEFT_FLOAT32, WEFT_FLOAT64, WEFT_BFLOAT16};
constexpr weft_op_t kOps[] = {WEFT_SUM, WEFT_PROD, WEFT_MAX, WEFT_MIN, WEFT_AVG};

bool Reduces(OpKind kind) {
  return kind != OpKind::kBroadcast && kind != OpKind::kAllGather;
}

// Every kind, type and operation at the small counts, a few types at counts of several rounds.
std::vector<CollectiveCase> Cases(int size, uint64_t seed) {
  std::vector<CollectiveCase> cases;
  const auto n = static_cast<size_t>(size);
  for (OpKind kind : kKinds) {
    for (weft_dtype_t dtype : kDtypes) {
      for (weft_op_t op : kOps) {
        if (!Reduces(kind) && op != WEFT_SUM) continue;
        std::vector<size_t> counts = {0, 1, n - 1, n, n + 1, 12, 1021, 4099};
        const bool rounds = op == WEFT_SUM && (dtype == WEFT_FLOAT32 || dtype == WEFT_BFLOAT16);
        if (rounds) counts.insert(counts.end(), {65537, 300007});
        for (size_t count : counts) {
          cases.push_back({.kind = kind,
                           .dtype = dtype,
                           .op = op,
                           .root = static_cast<int>((count + cases.size()) % n),
                           .count = count,
                           .seed = seed + cases.size()});
        }
      }
    }
  }
  return cases;
}

class ThreadRanks : public ::testing::TestWithParam<int> {};

// The mixture matrix: every rank chooses for itself whether it blocks, works in place, and what memory
// it uses, and how it is aligned.
TEST_P(ThreadRanks, MatchReferenceWhateverEachRankChooses) {
  const uint64_t seed = TestSeed(20261121);
  SCOPED_TRACE(testing::Message() << "WEFT_TEST_SEED=" << seed);
  const std::vector<CollectiveCase> cases = Cases(GetParam(), seed);
  EXPECT_EQ(RunThreadRanks(GetParam(), {.name = "mixed"},
                           [&](ProcessGroup& group) -> std::string {
                             for (size_t i = seed % kEveryNth; i < cases.size(); i += kEveryNth) {
                               const CollectiveCase& test = cases[i];
                               const std::string problem = RunCase(
                                   group, test, LocalChoice::FromSeed(test.seed, group.rank()));
                               if (!problem.empty()) return problem;
                             }
                             return "";
                           }),
            "");
  RecordProperty("cases", static_cast<int>(cases.size()) * GetParam());
  EXPECT_EQ(ProcessHeap().live_bytes(), 0u);
}

// All ranks alike, so that the direct and the staged paths are surely taken.
TEST_P(ThreadRanks, MatchReferenceOnEveryPath) {
  const uint64_t seed = TestSeed(7);
  int executed = 0;
  for (const bool heap : {false, true}) {
    for (const bool in_place : {false, true}) {
      for (const OpKind kind : kKinds) {
        std::vector<CollectiveCase> cases;
        for (const size_t count : {2500UL, 70001UL, 262144UL / kEveryNth}) {
          cases.push_back({.kind = kind, .dtype = WEFT_FLOAT32, .count = count, .seed = seed});
          cases.push_back({.kind = kind,
                           .dtype = WEFT_BFLOAT16,
                           .op = WEFT_AVG,
                           .root = GetParam() - 1,
                           .count = count,
                           .seed = seed});
        }
        executed += static_cast<int>(cases.size()) * GetParam();
        EXPECT_EQ(RunThreadRanks(GetParam(), {.name = "path"},
                                 [&](ProcessGroup& group) -> std::string {
                                   for (const CollectiveCase& test : cases) {
                                     const std::string problem = RunCase(
                                         group, test,
                                         {.in_place = in_place, .heap_in = heap, .heap_out = heap});
                                     if (!problem.empty()) return problem;
                                   }
                                   return "";
                                 }),
                  "");
      }
    }
  }
  RecordProperty("cases", executed);
}

// More operations in flight than the window has places, of every size class, waited for in any order.
TEST_P(ThreadRanks, ManyOperationsInFlight) {
  constexpr int kOperations = 100;
  constexpr size_t kCounts[] = {1, 700, 5000, 90000};
  EXPECT_EQ(RunThreadRanks(GetParam(), {.name = "flight"},
                           [&](ProcessGroup& group) -> std::string {
                             std::vector<std::vector<int32_t>> data;
                             std::vector<WorkRef> works;
                             for (int i = 0; i < kOperations; ++i) {
                               data.emplace_back(kCounts[i % 4], group.rank() + i);
                               Collective call{.kind = OpKind::kAllReduce,
                                               .dtype = WEFT_INT32,
                                               .count = data.back().size()};
                               call.in = call.out = data.back().data();
                               auto work = group.Start(call);
                               if (!work.ok()) return std::string(work.status().message());
                               works.push_back(*work);
                             }
                             for (int i = 0; i < kOperations; ++i) {
                               const int k = (i * 37 + group.rank()) % kOperations;
                               const absl::Status status = works[static_cast<size_t>(k)]->Wait(0);
                               if (!status.ok()) return std::string(status.message());
                               const int ranks = group.size();
                               const int32_t want = ranks * (ranks - 1) / 2 + ranks * k;
                               for (int32_t value : data[static_cast<size_t>(k)]) {
                                 if (value != want) return "a wrong sum";
                               }
                             }
                             return "";
                           }),
            "");
}

// Blocking calls of every class follow each other closely, so slots and halves are reused at once.
TEST_P(ThreadRanks, SlotsAndHalvesAreReusedSafely) {
  EXPECT_EQ(RunThreadRanks(GetParam(), {.name = "reuse"},
                           [&](ProcessGroup& group) -> std::string {
                             const uint64_t seed = TestSeed(99);
                             for (uint64_t i = 0; i < 300; ++i) {
                               const OpKind kind = kKinds[(seed + i * 7) % 5];
                               const size_t count = i % 50 == 49 ? 150001 : (i * 131) % 2500 + 1;
                               const int root =
                                   static_cast<int>(i % static_cast<uint64_t>(group.size()));
                               const CollectiveCase test{.kind = kind,
                                                         .dtype = WEFT_INT32,
                                                         .op = WEFT_SUM,
                                                         .root = root,
                                                         .count = count,
                                                         .seed = i};
                               LocalChoice choice;
                               choice.heap_in = choice.heap_out = i % 3 == 0;
                               const std::string problem = RunCase(group, test, choice);
                               if (!problem.empty()) return problem;
                             }
                             return "";
                           }),
            "");
}

INSTANTIATE_TEST_SUITE_P(RankSet, ThreadRanks, ::testing::ValuesIn(kThreadRanks));

}  // namespace
}  // namespace weft::test
