// Collectives on memory that the caller has registered: the same results as on private memory, without
// staging, and no end of a registration while an operation runs.
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/status.h"
#include "comm/node/heap.h"
#include "comm/node/make_group.h"
#include "directory_store.h"
#include "private_pages.h"
#include "rank_processes.h"
#include "rank_threads.h"
#include "shared_file.h"
#include "tests/support/forked_ranks.h"
#include "tests/support/leak_check.h"

namespace weft::test::registered_collectives_test {
namespace {

constexpr int kPidfdGetfd = 438;  // Linux 5.6

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
  const bool has_output = HasOutput(call, group.rank());
  const size_t results = kind == OpKind::kAllGather ? count * ranks : count;
  const auto* const first = static_cast<const float*>(call.out);
  return has_output ? std::vector<float>(first, first + results) : std::vector<float>();
}

constexpr size_t kCount = 30011;

// Of whole pages, for all that a rank computes.
size_t ArenaBytes(const ProcessGroup& group) {
  const size_t page = PageBytes();
  return (2 * kCount * static_cast<size_t>(group.size()) * sizeof(float) + page - 1) / page * page;
}

// Everything once on `registered` and once on private memory; the former must need no staging.
std::string SameAsOnPrivateMemory(ProcessGroup& group, char* registered) {
  const PrivatePages plain(ArenaBytes(group) / PageBytes());
  std::map<std::string, std::vector<float>> results;
  std::string problem;
  for (char* const arena : {registered, plain.page(0)}) {
    if (!group.Run({.kind = OpKind::kBarrier}).ok()) return "barrier failed";
    const size_t live = ProcessHeap().live_bytes();
    for (const OpKind kind :
         {OpKind::kAllReduce, OpKind::kReduce, OpKind::kBroadcast, OpKind::kAllGather,
          OpKind::kReduceScatter, OpKind::kScan, OpKind::kExscan}) {
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
    if (arena == registered && ProcessHeap().live_bytes() != live) return "it was staged";
    if (!group.Run({.kind = OpKind::kBarrier}).ok()) return "barrier failed";
  }
  const absl::Status ended = ProcessHeap().Deregister(registered);
  return ended.ok() ? "" : std::string(ended.message());
}

std::string OnPages(ProcessGroup& group) {
  const size_t bytes = ArenaBytes(group);
  const PrivatePages registered(bytes / PageBytes());
  if (!ProcessHeap().Register(registered.page(0), bytes).ok()) return "could not register";
  return SameAsOnPrivateMemory(group, registered.page(0));
}

// A storage in a file, neither at the beginning nor at the end of a page, and with neighbours.
std::string OnFile(ProcessGroup& group) {
  const size_t page = PageBytes();
  const size_t bytes = ArenaBytes(group);
  const SharedFile file(bytes + 2 * page, 3 * page);
  if (!file.valid()) return "could not make a file";
  std::memset(file.data(), 0x3c, file.bytes());
  const size_t skipped = page - 64;
  char* const arena = file.data() + skipped;
  const absl::Status registered =
      ProcessHeap().RegisterFile(arena, bytes, file.fd(), file.offset() + skipped);
  if (!registered.ok()) return std::string(registered.message());
  std::string problem = SameAsOnPrivateMemory(group, arena);
  for (size_t i = 0; i < file.bytes() && problem.empty(); ++i) {
    if (i == skipped) i += bytes;
    if (file.data()[i] != 0x3c) problem = "a neighbour was written";
  }
  return problem;
}

// Several files, one after the other: nobody takes one for another that was there before.
std::string OnFilesAnew(ProcessGroup& group) {
  for (int i = 0; i < 3; ++i) {
    if (std::string problem = OnFile(group); !problem.empty()) return problem;
  }
  return "";
}

class RegisteredThreads : public ::testing::TestWithParam<int> {};

TEST_P(RegisteredThreads, ComputeTheSameDirectly) {
  const Holdings before = Holdings::Now();
  EXPECT_EQ(RunThreadRanks(GetParam(), {.name = "registered"}, OnPages), "");
  EXPECT_EQ(Holdings::Now().Since(before), "");
}

TEST_P(RegisteredThreads, ComputeTheSameInFiles) {
  const Holdings before = Holdings::Now();
  EXPECT_EQ(RunThreadRanks(GetParam(), {.name = "registered"}, OnFilesAnew), "");
  EXPECT_EQ(Holdings::Now().Since(before), "");
}

INSTANTIATE_TEST_SUITE_P(RankSet, RegisteredThreads, ::testing::ValuesIn(kThreadRanks));

class RegisteredProcesses : public ::testing::TestWithParam<int> {};

TEST_P(RegisteredProcesses, ComputeTheSameDirectly) {
  RunProcessRanks(GetParam(), OnPages);
}

TEST_P(RegisteredProcesses, ComputeTheSameInFiles) {
  RunProcessRanks(GetParam(), OnFilesAnew);
}

// From now on this process may not take descriptors of others, as in many a container.
bool ForbidPidfdGetfd() {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kPidfdGetfd, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program = {std::size(filter), filter};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// Where one rank cannot map its peers' files, all files are as private memory.
TEST(RegisteredFiles, AreAsPrivateMemoryWhereTheyCannotBeMapped) {
  const TemporaryDirectory directory;
  const auto ends = RunForkedRanks(4, 120, [&](int rank) -> std::string {
    if (rank == 2 && !ForbidPidfdGetfd()) return "could not set a filter";
    DirectoryStore store(directory.path());
    auto group = MakeNodeGroup(&store, rank, 4, {.name = "filtered", .timeout_ns = 60'000'000'000});
    if (!group.ok()) return std::string(group.status().message());
    std::string problem = OnFile(**group);
    (*group)->Close();
    return problem == "it was staged" ? "" : "not private: " + problem;
  });
  for (const RankEnd& end : ends)
    EXPECT_EQ(end.Problem(), "");
}

// Messages larger than a record are read where they are.
std::string ExchangeInFiles(ProcessGroup& group) {
  const size_t bytes = 200'001;
  const SharedFile file(PageBytes() * 100, PageBytes());
  const absl::Status registered =
      ProcessHeap().RegisterFile(file.data() + 7, bytes, file.fd(), file.offset() + 7);
  if (!registered.ok()) return std::string(registered.message());
  std::memset(file.data(), 'a' + group.rank(), file.bytes());
  std::vector<char> got(bytes);
  const int next = (group.rank() + 1) % group.size();
  const int previous = (group.rank() + group.size() - 1) % group.size();
  const absl::Status moved =
      group.RunPair({.is_send = true, .in = file.data() + 7, .count = bytes, .peer = next},
                    {.out = got.data(), .count = bytes, .peer = previous});
  if (!moved.ok()) return std::string(moved.message());
  if (!std::all_of(got.begin(), got.end(), [&](char c) { return c == 'a' + previous; })) {
    return "other bytes came";
  }
  return std::string(ProcessHeap().Deregister(file.data() + 7).message());
}

TEST_P(RegisteredProcesses, SendFromFiles) {
  RunProcessRanks(GetParam(), ExchangeInFiles);
}

// The owner is killed between what it announced and the first time that its file is mapped: it is named as the dead.
std::string DiesBeforeItsFileIsMapped(ProcessGroup& group, bool by_message) {
  constexpr size_t kBytes = 1 << 20;
  const SharedFile file(kBytes);
  std::vector<char> other(kBytes);
  if (group.rank() == 0) {
    const absl::Status registered = ProcessHeap().RegisterFile(file.data(), kBytes, file.fd(), 0);
    if (!registered.ok()) return std::string(registered.message());
    absl::Status started;
    if (by_message) {
      started = group.Start(Message{.is_send = true, .in = file.data(), .count = kBytes, .peer = 1})
                    .status();
    } else {
      started = group
                    .Start(Collective{.kind = OpKind::kBroadcast,
                                      .dtype = WEFT_UINT8,
                                      .root = 0,
                                      .count = kBytes,
                                      .in = file.data(),
                                      .out = file.data()})
                    .status();
    }
    if (started.ok()) raise(SIGKILL);
    return "did not start: " + std::string(started.message());
  }
  usleep(300'000);
  const absl::Status status =
      by_message ? group.Run(Message{.out = other.data(), .count = kBytes, .peer = 0})
                 : group.Run(Collective{.kind = OpKind::kBroadcast,
                                        .dtype = WEFT_UINT8,
                                        .root = 0,
                                        .count = kBytes,
                                        .out = other.data()});
  const ErrorFields fields = FieldsOf(status);
  const bool named = ResultOf(status) == WEFT_PEER_LOST && fields.rank == 0 && fields.signal == 9;
  return named ? "" : "it said: " + std::string(status.message());
}

TEST(RegisteredFiles, OfADeadOwnerNameIt) {
  for (const bool by_message : {false, true}) {
    RunProcessRanks(
        2, [&](ProcessGroup& group) { return DiesBeforeItsFileIsMapped(group, by_message); }, {0});
  }
}

// Whoever has made the file shorter is told by whom it cannot be mapped any more.
TEST(RegisteredFiles, MadeShorterAreRefusedWithASentence) {
  const TemporaryDirectory directory;
  const auto ends = RunForkedRanks(2, 120, [&](int rank) -> std::string {
    DirectoryStore store(directory.path());
    auto group = MakeNodeGroup(&store, rank, 2, {.name = "short", .timeout_ns = 60'000'000'000});
    if (!group.ok()) return std::string(group.status().message());
    constexpr size_t kBytes = 1 << 20;
    const SharedFile file(kBytes);
    const absl::Status registered = ProcessHeap().RegisterFile(file.data(), kBytes, file.fd(), 0);
    if (!registered.ok()) return std::string(registered.message());
    std::vector<char> other(kBytes);
    if (rank == 0 && ftruncate(file.fd(), PageBytes()) != 0) return "could not make it shorter";
    const Collective call{.kind = OpKind::kBroadcast,
                          .dtype = WEFT_UINT8,
                          .root = 0,
                          .count = kBytes,
                          .in = rank == 0 ? file.data() : nullptr,
                          .out = rank == 0 ? file.data() : other.data()};
    const absl::Status status = (*group)->Run(call);
    (*group)->Close();
    const std::string said(status.message());
    return said.find("must not be made shorter") != std::string::npos ? "" : "it said: " + said;
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
}  // namespace weft::test::registered_collectives_test
