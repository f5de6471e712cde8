// 72 ranks as threads of one process, on two fake nodes of 36: more than one island may have, over its memory and over TCP.
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/text.h"
#include "base/wait.h"
#include "comm/hierarchy/make_group.h"
#include "tests/comm/node/collective_case.h"
#include "tests/comm/node/directory_store.h"
#include "tests/support/case_sample.h"
#include "tests/support/leak_check.h"

namespace weft::test::span_thread_ranks_test {
namespace {

// With a sanitizer 72 threads would take many minutes on two CPUs; what threads share, fewer of them share as well.
#if defined(WEFT_SANITIZE)
constexpr int kRanks = 10;
#else
constexpr int kRanks = 72;
#endif
constexpr int64_t kTimeoutNs = 120'000'000'000;

// Every kind, with what rounds and what does not, in odd sizes.
std::vector<CollectiveCase> AllCases(uint64_t seed) {
  std::vector<CollectiveCase> cases;
  for (int number = 0; number < kOpKindCount; ++number) {
    const auto kind = static_cast<OpKind>(number);
    for (const size_t count : {1UL, 131UL}) {
      const bool first = cases.size() % 4 < 2;
      cases.push_back({.kind = kind,
                       .dtype = first ? WEFT_BFLOAT16 : WEFT_INT32,
                       .op = TraitsOf(kind).reduces && first ? WEFT_AVG : WEFT_SUM,
                       .root = number * 5 % kRanks,
                       .count = kind == OpKind::kBarrier ? 0 : count,
                       .seed = seed + cases.size()});
    }
  }
  return cases;
}

std::string RunRank(Store* store, int rank, const std::vector<CollectiveCase>& cases) {
  const auto group = MakeGroup(
      store, rank, kRanks, {.name = "t", .timeout_ns = kTimeoutNs, .init_timeout_ns = kTimeoutNs},
      // 72 threads on two CPUs: whoever looks after the nodes may not run for seconds.
      {.fake_nodes = "2", .span = {.limit_ns = kTimeoutNs}});
  if (!group.ok()) return StrCat("making: ", std::string(group.status().message()));
  std::string problem;
  for (const CollectiveCase& test : cases) {
    if (!problem.empty()) break;
    problem = RunCase(**group, test, LocalChoice::FromSeed(test.seed, rank));
  }
  if (!problem.empty()) (*group)->Abort("the test has failed");
  (*group)->Close();
  return problem;
}

TEST(SpanThreadRanks, TwoIslandsOfThirtySix) {
  const uint64_t seed = TestSeed(45);
  SCOPED_TRACE(StrCat("WEFT_TEST_SEED=", seed));
  const std::vector<CollectiveCase> cases = AllCases(seed);
  const TemporaryDirectory directory;
  DirectoryStore store(directory.path());
  std::vector<std::string> problems(kRanks);
  std::vector<std::thread> threads;
  const int64_t begin_ns = MonotonicNs();
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back(
        [&, rank] { problems[static_cast<size_t>(rank)] = RunRank(&store, rank, cases); });
  }
  for (std::thread& thread : threads)
    thread.join();
  for (int rank = 0; rank < kRanks; ++rank)
    EXPECT_EQ(problems[static_cast<size_t>(rank)], "") << "rank " << rank;
  std::printf("%zu calls of %d ranks in %.1f s\n", cases.size(), kRanks,
              static_cast<double>(MonotonicNs() - begin_ns) * 1e-9);
}

}  // namespace
}  // namespace weft::test::span_thread_ranks_test
