// Collectives on memory that the caller has registered: the same results as on private memory, without
// staging, and no end of a registration while an operation runs.
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/status.h"
#include "comm/node/heap.h"
#include "comm/node/make_group.h"
#include "directory_store.h"
#include "private_pages.h"
#include "rank_threads.h"
#include "tests/support/forked_ranks.h"
#include "tests/support/leak_check.h"

namespace weft::test {
namespace {

// One collective of a rank, on buffers that `prepare` has had a chance to register.
std::vector<float> ResultOn(ProcessGroup& group, OpKind kind, size_t count, bool in_place,
                            bool asynchronous, char* arena, std::string* problem) {
  const auto ranks = static_cast<size_t>(group.size());
  Collective call{.kind = kind, .dtype = WEFT_FLOAT32, .root = group.size() - 1, .count = count};
  auto* const in = reinterpret_cast<float*>(arena);
  float* const out = in_place ? in : in + count * ranks;
  call.in = in;
  call.out = out;
  const auto block = static_cast<size_t>(group.rank()) * count;
  if (in_place && kind == OpKind::kAllGather) call.in = in + block;
  if (in_place && kind == OpKind::kReduceScatter) call.out = in + block;
  for (size_t i = 0; i < count * ranks; ++i) {
    in[i] = static_cast<float>(i % 1000) + 0.1f * static_cast<float>(group.rank());
  }
  absl::Status status;
  if (asynchronous) {
    const auto work = group.Start(call);
    status = work.ok() ? (*work)->Wait(0) : work.status();
  } else {
    status = group.Run(call);
  }
  if (!status.ok()) *problem = std::string(status.message());
  const bool has_output = kind != OpKind::kReduce || call.root == group.rank();
  const size_t results = kind == OpKind::kAllGather ? count * ranks : count;
  const auto* const first = static_cast<const float*>(call.out);
  return has_output ? std::vector<float>(first, first + results) : std::vector<float>();
}

// Everything once on registered and once on private memory; the former must need no staging.
std::string SameAsOnPrivateMemory(ProcessGroup& group) {
  constexpr size_t kCount = 30011;
  const size_t page = PageBytes();
  const size_t bytes =
      (2 * kCount * static_cast<size_t>(group.size()) * sizeof(float) + page - 1) / page * page;
  const PrivatePages registered(bytes / page);
  const PrivatePages plain(bytes / page);
  if (!ProcessHeap().Register(registered.page(0), bytes).ok()) return "could not register";
  std::map<std::string, std::vector<float>> results;
  std::string problem;
  for (char* const arena : {registered.page(0), plain.page(0)}) {
    if (!group.Run({.kind = OpKind::kBarrier}).ok()) return "barrier failed";
    const size_t live = ProcessHeap().live_bytes();
    for (const OpKind kind : {OpKind::kAllReduce, OpKind::kReduce, OpKind::kBroadcast,
                              OpKind::kAllGather, OpKind::kReduceScatter}) {
      for (const int variant : {0, 1, 2, 3}) {
        const std::string name =
            std::string(OpKindName(kind)) + " variant " + std::to_string(variant);
        const bool in_place = (variant & 1) != 0;
        std::vector<float> result =
            ResultOn(group, kind, kCount, in_place, (variant & 2) != 0, arena, &problem);
        if (!problem.empty()) return name + ": " + problem;
        const auto [known, first] = results.emplace(name, result);
        if (!first && known->second != result) return name + " differs";
      }
    }
    if (!group.Run({.kind = OpKind::kBarrier}).ok()) return "barrier failed";
    if (arena == registered.page(0) && ProcessHeap().live_bytes() != live) return "it was staged";
    if (!group.Run({.kind = OpKind::kBarrier}).ok()) return "barrier failed";
  }
  const absl::Status ended = ProcessHeap().Deregister(registered.page(0));
  return ended.ok() ? "" : std::string(ended.message());
}

class RegisteredThreads : public ::testing::TestWithParam<int> {};

TEST_P(RegisteredThreads, ComputeTheSameDirectly) {
  const Holdings before = Holdings::Now();
  EXPECT_EQ(RunThreadRanks(GetParam(), {.name = "registered"}, SameAsOnPrivateMemory), "");
  EXPECT_EQ(Holdings::Now().Since(before), "");
}

INSTANTIATE_TEST_SUITE_P(RankSet, RegisteredThreads, ::testing::ValuesIn(kThreadRanks));

class RegisteredProcesses : public ::testing::TestWithParam<int> {};

TEST_P(RegisteredProcesses, ComputeTheSameDirectly) {
  const TemporaryDirectory directory;
  const auto ends = RunForkedRanks(GetParam(), 120, [&](int rank) -> std::string {
    DirectoryStore store(directory.path());
    auto group = MakeNodeGroup(&store, rank, GetParam(),
                               {.name = "registered", .timeout_ns = 60'000'000'000});
    if (!group.ok()) return std::string(group.status().message());
    std::string problem = SameAsOnPrivateMemory(**group);
    (*group)->Close();
    return problem;
  });
  for (const RankEnd& end : ends)
    EXPECT_EQ(end.Problem(), "");
}

INSTANTIATE_TEST_SUITE_P(RankSet, RegisteredProcesses, ::testing::ValuesIn(kProcessRanks));

TEST(Registration, IsInUseWhileAnOperationRuns) {
  auto groups = CreateLocalGroups(2, {.name = "busy"});
  ASSERT_TRUE(groups.ok());
  const PrivatePages pages(64);
  const PrivatePages others(64);
  ASSERT_TRUE(ProcessHeap().Register(pages.page(0), pages.bytes()).ok());
  Collective call{.kind = OpKind::kAllReduce, .dtype = WEFT_UINT8, .count = pages.bytes()};
  call.in = call.out = pages.page(0);
  const auto work = (*groups)[0]->Start(call);
  ASSERT_TRUE(work.ok());
  EXPECT_EQ(ResultOf(ProcessHeap().Deregister(pages.page(0))), WEFT_BAD_STATE);
  call.in = call.out = others.page(0);
  EXPECT_TRUE((*groups)[1]->Run(call).ok());
  EXPECT_TRUE((*work)->Wait(0).ok());
  EXPECT_TRUE(ProcessHeap().Deregister(pages.page(0)).ok());
  EXPECT_EQ(std::memcmp(pages.page(0), others.page(0), pages.bytes()), 0);
  for (const auto& group : *groups)
    group->Close();
}

}  // namespace
}  // namespace weft::test
