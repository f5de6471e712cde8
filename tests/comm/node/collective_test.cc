// Every core collective against the reference, bitwise, with ranks as threads.
#include <future>
#include <iterator>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "collective_case.h"
#include "comm/group/block_layout.h"
#include "comm/node/heap.h"
#include "comm/node/segment.h"
#include "rank_threads.h"
#include "tests/support/case_sample.h"
#include "tests/support/leak_check.h"

namespace weft::test {
namespace {

// Sanitizers look for races and bad accesses, which a sample of the cases shows as well.
#ifdef WEFT_SANITIZE
constexpr bool kSampled = true;
constexpr size_t kPathCounts[] = {2500, 70001};
#else
constexpr bool kSampled = false;
constexpr size_t kPathCounts[] = {2500, 400003};
#endif

constexpr OpKind kKinds[] = {
    OpKind::kAllReduce,        OpKind::kReduce,        OpKind::kBroadcast,
    OpKind::kAllGather,        OpKind::kReduceScatter, OpKind::kGather,
    OpKind::kScatter,          OpKind::kAllToAll,      OpKind::kAllGatherV,
    OpKind::kReduceScatterV,   OpKind::kGatherV,       OpKind::kScatterV,
    OpKind::kAllToAllV,        OpKind::kAllReduceIov,  OpKind::kAllGatherIov,
    OpKind::kReduceScatterIov, OpKind::kScan,          OpKind::kExscan,
};
constexpr weft_dtype_t kDtypes[] = {WEFT_UINT8,   WEFT_INT32,   WEFT_INT64,   WEFT_FLOAT16,
                                    WEFT_FLOAT32, WEFT_FLOAT64, WEFT_BFLOAT16};
constexpr weft_op_t kOps[] = {WEFT_SUM, WEFT_PROD, WEFT_MAX, WEFT_MIN, WEFT_AVG};

// How many blocks the larger buffer has.
size_t BlockCount(OpKind kind, size_t ranks) {
  return TraitsOf(kind).in_blocks || TraitsOf(kind).out_blocks ? ranks : 1;
}

// Every kind, type and operation at the small counts, a few types at counts of several rounds.
std::vector<CollectiveCase> Cases(int size, uint64_t seed) {
  std::vector<CollectiveCase> cases;
  const auto n = static_cast<size_t>(size);
  for (OpKind kind : kKinds) {
    for (weft_dtype_t dtype : kDtypes) {
      for (weft_op_t op : kOps) {
        if (!TraitsOf(kind).reduces && op != WEFT_SUM) continue;
        std::vector<size_t> counts = {0, 1, n - 1, n, n + 1, 12, 1021, 4099};
        const bool rounds = op == WEFT_SUM && (dtype == WEFT_FLOAT32 || dtype == WEFT_BFLOAT16);
        if (rounds)
          counts.insert(counts.end(), {65537 / BlockCount(kind, n), 300007 / BlockCount(kind, n)});
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

// A kind at counts of one round and of several.
std::vector<CollectiveCase> PathCases(OpKind kind, int size, uint64_t seed) {
  std::vector<CollectiveCase> cases;
  for (size_t count : kPathCounts) {
    const bool rounds = count > 2500;
    if (rounds) count /= BlockCount(kind, static_cast<size_t>(size));
    cases.push_back({.kind = kind, .dtype = WEFT_FLOAT32, .count = count, .seed = seed});
    if (kSampled && rounds) continue;
    cases.push_back({.kind = kind,
                     .dtype = WEFT_BFLOAT16,
                     .op = WEFT_AVG,
                     .root = size - 1,
                     .count = count,
                     .seed = seed});
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
  const CaseSample sample({.every = 7, .sanitized = 23}, seed);
  EXPECT_EQ(RunThreadRanks(GetParam(), {.name = "mixed"},
                           [&](ProcessGroup& group) -> std::string {
                             for (size_t i = 0; i < cases.size(); ++i) {
                               if (!sample.Takes(i)) continue;
                               const CollectiveCase& test = cases[i];
                               std::string problem = RunCase(
                                   group, test, LocalChoice::FromSeed(test.seed, group.rank()));
                               if (!problem.empty()) return problem;
                             }
                             return "";
                           }),
            "");
  sample.Print("mixture matrix on " + std::to_string(GetParam()) + " threads", cases.size());
  EXPECT_EQ(ProcessHeap().live_bytes(), 0u);
}

// Whatever memory each rank has: what is private is read by the kernel, the rest through mappings.
TEST_P(ThreadRanks, CopiesReadPeersPrivateMemory) {
  const uint64_t seed = TestSeed(11);
  SCOPED_TRACE(testing::Message() << "WEFT_TEST_SEED=" << seed);
  std::vector<CollectiveCase> cases;
  for (const OpKind kind : kKinds) {
    const OpTraits& traits = TraitsOf(kind);
    if (traits.reduces || traits.iov || kind == OpKind::kBarrier) continue;
    for (CollectiveCase& test : PathCases(kind, GetParam(), seed + cases.size())) {
      test.algorithm = Protocol::kSingleCopy;
      cases.push_back(test);
    }
  }
  EXPECT_EQ(RunThreadRanks(GetParam(), {.name = "single copy"},
                           [&](ProcessGroup& group) -> std::string {
                             for (const CollectiveCase& test : cases) {
                               LocalChoice choice = LocalChoice::FromSeed(test.seed, group.rank());
                               // An exchange in place overwrites what peers have yet to read.
                               if (TraitsOf(test.kind).in_blocks) choice.in_place = false;
                               std::string problem = RunCase(group, test, choice);
                               if (!problem.empty()) return problem;
                             }
                             return "";
                           }),
            "");
  RecordProperty("cases", static_cast<int>(cases.size()) * GetParam());
}

// All ranks alike, so that the direct and the staged paths are surely taken.
TEST_P(ThreadRanks, MatchReferenceOnEveryPath) {
  const uint64_t seed = TestSeed(7);
  const CaseSample sample({.every = 5, .sanitized = 7}, seed);
  size_t number = 0;
  for (const Memory memory : {Memory::kPrivate, Memory::kSymmetric}) {
    for (const bool in_place : {false, true}) {
      for (const OpKind kind : kKinds) {
        if (!sample.Takes(number++)) continue;
        const std::vector<CollectiveCase> cases = PathCases(kind, GetParam(), seed);
        EXPECT_EQ(RunThreadRanks(GetParam(), {.name = "path"},
                                 [&](ProcessGroup& group) -> std::string {
                                   for (const CollectiveCase& test : cases) {
                                     std::string problem = RunCase(
                                         group, test,
                                         {.in_place = in_place, .in = memory, .out = memory});
                                     if (!problem.empty()) return problem;
                                   }
                                   return "";
                                 }),
                  "");
      }
    }
  }
  sample.Print("paths on " + std::to_string(GetParam()) + " threads", number);
}

// Elements of several values, also such as no cache line holds whole, in rounds of every protocol: none is cut anywhere.
TEST_P(ThreadRanks, ElementsOfSeveralValuesStayWhole) {
  struct Shape {
    weft_dtype_t dtype;
    size_t element_count;
    std::vector<size_t> counts;  // of elements
  };

  const std::vector<Shape> shapes = {
      {WEFT_FLOAT64, 2, {1, 3, 517, 33'333}}, {WEFT_FLOAT64, 3, {2, 91, 22'003}},
      {WEFT_INT32, 4, {3, 1'021, 40'009}},    {WEFT_FLOAT64, 7, {1, 173, 9'973}},
      {WEFT_INT8, 3, {5, 17, 200'003}},       {WEFT_FLOAT16, 37, {7, 7'001}},
      {WEFT_FLOAT64, 300, {1, 9, 401}},       {WEFT_UINT8, 8'191, {1, 3, 129}},
      {WEFT_FLOAT64, 1'024, {1, 2, 131}}};
  const uint64_t seed = TestSeed(23);
  SCOPED_TRACE(testing::Message() << "WEFT_TEST_SEED=" << seed);
  std::vector<CollectiveCase> cases;
  for (const Shape& shape : shapes) {
    for (const OpKind kind : kKinds) {
      if (!TraitsOf(kind).reduces) continue;
      for (const size_t count : shape.counts) {
        const auto number = static_cast<int>(cases.size());
        cases.push_back({.kind = kind,
                         .dtype = shape.dtype,
                         .op = kOpUser,
                         .root = number % GetParam(),
                         .count = count,
                         .seed = seed + cases.size(),
                         .element_count = shape.element_count});
      }
    }
  }
  const CaseSample sample({.every = 5, .sanitized = 13}, seed);
  EXPECT_EQ(RunThreadRanks(GetParam(), {.name = "elements"},
                           [&](ProcessGroup& group) -> std::string {
                             for (size_t i = 0; i < cases.size(); ++i) {
                               if (!sample.Takes(i)) continue;
                               // Direct where all have symmetric memory, by chance in one case of three.
                               LocalChoice choice =
                                   LocalChoice::FromSeed(cases[i].seed, group.rank());
                               if (i % 3 == 0) choice.in = choice.out = Memory::kSymmetric;
                               std::string problem = RunCase(group, cases[i], choice);
                               if (!problem.empty()) return problem;
                             }
                             return "";
                           }),
            "");
  sample.Print("elements of several values on " + std::to_string(GetParam()) + " threads",
               cases.size());
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

// Rank 0 has queued more than there are slots, or lines, before another rank calls: what it announced
// ahead must still be there when it comes to do the older ones, as it reads its own from there.
TEST_P(ThreadRanks, OneRankFarAheadLosesNothing) {
  constexpr int kOperations = 40;
  const auto ranks = static_cast<size_t>(GetParam());
  std::promise<void> queued;
  const std::shared_future<void> all_queued = queued.get_future().share();
  const std::vector<size_t> counts(ranks, 3);
  const auto call_of = [&](ProcessGroup& group, int i, std::vector<int32_t>* in,
                           std::vector<int32_t>* out) {
    in->assign(3 * ranks, 1000 * i + group.rank());
    out->assign(3 * ranks, -1);
    auto layout = std::make_shared<BlockLayout>();
    Collective call{.dtype = WEFT_INT32, .in = in->data(), .out = out->data()};
    const Blocks blocks{counts.data(), nullptr};
    if (i % 3 == 0) {
      call.kind = OpKind::kAllToAllV;
    } else if (i % 3 == 1) {
      call.kind = OpKind::kAllGatherV;
    } else {
      call.kind = OpKind::kAllReduce;
      call.op = kOpPremulSum;
      call.count = 1;
      call.custom = std::make_shared<CustomOp>(
          CustomOp{.kind = kOpPremulSum, .dtype = WEFT_INT32, .factor = static_cast<uint64_t>(i)});
      return call;
    }
    EXPECT_TRUE(LayOutBlocks(blocks, blocks, group.rank(), group.size(), layout.get(), &call).ok());
    call.layout = layout;
    return call;
  };
  const auto check = [&](int i, const std::vector<int32_t>& out) -> std::string {
    for (size_t from = 0; from < ranks; ++from) {
      const auto rank = static_cast<int32_t>(from);
      if (i % 3 != 2 && out[3 * from + 2] != 1000 * i + rank) return "wrong data";
    }
    const auto n = static_cast<int32_t>(ranks);
    const int32_t sum = i * (n * 1000 * i + n * (n - 1) / 2);
    return i % 3 == 2 && out[0] != sum ? "a wrong sum" : "";
  };
  EXPECT_EQ(RunThreadRanks(GetParam(), {.name = "ahead"},
                           [&](ProcessGroup& group) -> std::string {
                             std::vector<std::vector<int32_t>> in(kOperations), out(kOperations);
                             std::vector<WorkRef> works;
                             if (group.rank() != 0) all_queued.wait();
                             for (int i = 0; i < kOperations; ++i) {
                               const auto k = static_cast<size_t>(i);
                               const Collective call = call_of(group, i, &in[k], &out[k]);
                               if (group.rank() != 0) {
                                 const absl::Status status = group.Run(call);
                                 if (!status.ok()) return std::string(status.message());
                                 continue;
                               }
                               auto work = group.Start(call);
                               if (!work.ok()) return std::string(work.status().message());
                               works.push_back(*work);
                             }
                             if (group.rank() == 0) queued.set_value();
                             for (const WorkRef& work : works) {
                               const absl::Status status = work->Wait(0);
                               if (!status.ok()) return std::string(status.message());
                             }
                             for (int i = 0; i < kOperations; ++i) {
                               std::string problem = check(i, out[static_cast<size_t>(i)]);
                               if (!problem.empty()) return problem;
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
                               const OpKind kind = kKinds[(seed + i * 7) % std::size(kKinds)];
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
                               choice.in = choice.out =
                                   i % 3 == 0 ? Memory::kSymmetric : Memory::kPrivate;
                               std::string problem = RunCase(group, test, choice);
                               if (!problem.empty()) return problem;
                             }
                             return "";
                           }),
            "");
}

INSTANTIATE_TEST_SUITE_P(RankSet, ThreadRanks, ::testing::ValuesIn(kThreadRanks));

}  // namespace
}  // namespace weft::test
