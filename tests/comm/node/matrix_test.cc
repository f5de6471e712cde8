// Every collective with every element type and reduction, in place and not, blocking and asynchronous,
// on private, registered and symmetric memory, with ranks as threads and, a sample, as processes, bitwise
// against the reference.
//
// The number of counts that each combination is tried with is one, another for each: the combinations
// are many, and sizes have tests of their own (collective_test.cc).
#include <vector>

#include <gtest/gtest.h>

#include "collective_case.h"
#include "comm/kernels/dtype.h"
#include "comm/kernels/reduce.h"
#include "comm/node/heap.h"
#include "rank_processes.h"
#include "rank_threads.h"
#include "tests/support/case_sample.h"
#include "tests/support/leak_check.h"

namespace weft::test::matrix_test {
namespace {

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
  const size_t element_counts[] = {1, 2, 3, 4, 7};
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
                              .seed = seed + index,
                              .element_count = element_counts[index / 12 % 5]},
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

std::string RunCombinations(ProcessGroup& group, const std::vector<Combination>& all,
                            const CaseSample& sample) {
  for (size_t i = 0; i < all.size(); ++i) {
    if (!sample.Takes(i)) continue;
    std::string problem = RunCase(group, all[i].test, all[i].choice);
    if (!problem.empty()) return problem;
  }
  return "";
}

class ThreadMatrix : public testing::TestWithParam<int> {};

TEST_P(ThreadMatrix, MatchesTheReferenceBitwise) {
  const uint64_t seed = TestSeed(20261121);
  SCOPED_TRACE(testing::Message() << "WEFT_TEST_SEED=" << seed);
  const std::vector<Combination> all = Combinations(GetParam(), seed);
  const CaseSample sample({.every = 11, .sanitized = 53}, seed);
  EXPECT_EQ(
      RunThreadRanks(GetParam(), {.name = "matrix"},
                     [&](ProcessGroup& group) { return RunCombinations(group, all, sample); }),
      "");
  sample.Print("matrix on " + std::to_string(GetParam()) + " threads", all.size());
  EXPECT_EQ(ProcessHeap().live_bytes(), 0u);
}

INSTANTIATE_TEST_SUITE_P(RankSet, ThreadMatrix, ::testing::ValuesIn(kThreadRanks));

class ProcessMatrix : public testing::TestWithParam<int> {};

// Fewer: what processes do differently does not depend on types.
TEST_P(ProcessMatrix, MatchesTheReferenceBitwise) {
  const uint64_t seed = TestSeed(7);
  SCOPED_TRACE(testing::Message() << "WEFT_TEST_SEED=" << seed);
  const std::vector<Combination> all = Combinations(GetParam(), seed);
  const CaseSample sample({.every = 37, .sanitized = 191}, seed);
  RunProcessRanks(GetParam(),
                  [&](ProcessGroup& group) { return RunCombinations(group, all, sample); });
  sample.Print("matrix on " + std::to_string(GetParam()) + " processes", all.size());
}

INSTANTIATE_TEST_SUITE_P(RankSet, ProcessMatrix, ::testing::ValuesIn(kProcessRanks));

}  // namespace
}  // namespace weft::test::matrix_test
