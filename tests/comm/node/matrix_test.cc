// Every collective with every element type and reduction, in place and not, blocking and asynchronous,
// on private, registered and symmetric memory, with ranks as threads and, a sample, as processes, bitwise
// against the reference.
//
// The number of counts that each combination is tried with is one, another for each: the combinations
// are many, and sizes have tests of their own (collective_test.cc).
#include <cstdio>
#include <vector>

#include <gtest/gtest.h>

#include "collective_case.h"
#include "comm/kernels/dtype.h"
#include "comm/kernels/reduce.h"
#include "comm/node/heap.h"
#include "rank_processes.h"
#include "rank_threads.h"
#include "tests/support/leak_check.h"

namespace weft::test {
namespace {

// Sanitizers look for races and bad accesses, which a sample of the cases shows as well.
#ifdef WEFT_SANITIZE
constexpr size_t kEveryNth = 37;
#else
constexpr size_t kEveryNth = 1;
#endif

struct Combination {
  CollectiveCase test;
  LocalChoice choice;
};

std::vector<weft_op_t> OpsOf(OpKind kind, weft_dtype_t dtype) {
  if (!TraitsOf(kind).reduces) return {WEFT_SUM};
  std::vector<weft_op_t> ops;
  for (const weft_op_t op : kReductionOps) {
    if (CheckReduction(dtype, op, nullptr).ok()) ops.push_back(op);
  }
  if (dtype != WEFT_BOOL) ops.push_back(kOpPremulSum);
  ops.push_back(kOpUser);
  return ops;
}

std::vector<Combination> Combinations(int size, uint64_t seed) {
  const auto ranks = static_cast<size_t>(size);
  const size_t counts[] = {1, ranks + 1, 7, 13, 331, 1021};
  std::vector<Combination> all;
  for (int number = 1; number < kOpKindCount; ++number) {
    const auto kind = static_cast<OpKind>(number);
    for (const weft_dtype_t dtype : kDtypes) {
      for (const weft_op_t op : OpsOf(kind, dtype)) {
        for (const Memory memory : {Memory::kPrivate, Memory::kRegistered, Memory::kSymmetric}) {
          for (const bool in_place : {false, true}) {
            for (const bool asynchronous : {false, true}) {
              const uint64_t index = all.size();
              all.push_back({{.kind = kind,
                              .dtype = dtype,
                              .op = op,
                              .root = static_cast<int>(index % ranks),
                              .count = counts[index % std::size(counts)],
                              .seed = seed + index},
                             {.in_place = in_place,
                              .asynchronous = asynchronous,
                              .in = memory,
                              .out = memory,
                              .misalignment_in = index % 3,
                              .misalignment_out = index % 2}});
            }
          }
        }
      }
    }
  }
  return all;
}

// Every `stride`-th combination.
std::string RunCombinations(ProcessGroup& group, const std::vector<Combination>& all, uint64_t seed,
                            size_t stride) {
  for (size_t i = seed % stride; i < all.size(); i += stride) {
    const std::string problem = RunCase(group, all[i].test, all[i].choice);
    if (!problem.empty()) return problem;
  }
  return "";
}

void Report(const char* ranks, int size, size_t combinations, uint64_t seed, size_t stride) {
  const size_t executed = (combinations - seed % stride + stride - 1) / stride;
  std::printf("matrix cases executed on %d %s: %zu\n", size, ranks, executed);
  testing::Test::RecordProperty("cases", static_cast<int>(executed));
}

class ThreadMatrix : public testing::TestWithParam<int> {};

TEST_P(ThreadMatrix, MatchesTheReferenceBitwise) {
  const uint64_t seed = TestSeed(20261121);
  SCOPED_TRACE(testing::Message() << "WEFT_TEST_SEED=" << seed);
  const std::vector<Combination> all = Combinations(GetParam(), seed);
  EXPECT_EQ(RunThreadRanks(
                GetParam(), {.name = "matrix"},
                [&](ProcessGroup& group) { return RunCombinations(group, all, seed, kEveryNth); }),
            "");
  Report("threads", GetParam(), all.size(), seed, kEveryNth);
  EXPECT_EQ(ProcessHeap().live_bytes(), 0u);
}

INSTANTIATE_TEST_SUITE_P(RankSet, ThreadMatrix, ::testing::ValuesIn(kThreadRanks));

class ProcessMatrix : public testing::TestWithParam<int> {};

// A sample: what processes do differently does not depend on types.
TEST_P(ProcessMatrix, MatchesTheReferenceBitwise) {
  constexpr size_t kStride = 5 * kEveryNth;
  const uint64_t seed = TestSeed(7);
  SCOPED_TRACE(testing::Message() << "WEFT_TEST_SEED=" << seed);
  const std::vector<Combination> all = Combinations(GetParam(), seed);
  RunProcessRanks(GetParam(),
                  [&](ProcessGroup& group) { return RunCombinations(group, all, seed, kStride); });
  Report("processes", GetParam(), all.size(), seed, kStride);
}

INSTANTIATE_TEST_SUITE_P(RankSet, ProcessMatrix, ::testing::ValuesIn(kProcessRanks));

}  // namespace
}  // namespace weft::test
