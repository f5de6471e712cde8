// Ranks as processes: the same numbers, and what survivors are told when one is killed or stopped.
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/status.h"
#include "base/wait.h"
#include "collective_case.h"
#include "comm/node/heap.h"
#include "comm/node/make_group.h"
#include "directory_store.h"
#include "message_case.h"
#include "rank_processes.h"
#include "rank_threads.h"
#include "tests/support/case_sample.h"
#include "tests/support/forked_ranks.h"
#include "tests/support/leak_check.h"

namespace weft::test::process_test {
namespace {

// Sanitizers slow the ranks down by an order of magnitude; smaller calls show what they look for.
#ifdef WEFT_SANITIZE
constexpr size_t kLargeCount = 4099;
#else
constexpr size_t kLargeCount = 300007;
#endif

class Processes : public ::testing::TestWithParam<int> {};

std::vector<CollectiveCase> Cases(int size, uint64_t seed) {
  constexpr int kRounds = 3;
  std::vector<CollectiveCase> cases;
  for (int number_of_kind = 1; number_of_kind < kOpKindCount; ++number_of_kind) {
    const auto kind = static_cast<OpKind>(number_of_kind);
    const bool blocks = TraitsOf(kind).in_blocks || TraitsOf(kind).out_blocks;
    for (const weft_dtype_t dtype : {WEFT_FLOAT32, WEFT_BFLOAT16, WEFT_INT64}) {
      for (size_t count : {0UL, 1UL, 5UL, 1021UL, 3000UL, 70001UL, kLargeCount}) {
        if (blocks && count > 3000) count /= static_cast<size_t>(size);
        for (int round = 0; round < kRounds; ++round) {
          const uint64_t number = cases.size();
          cases.push_back({.kind = kind,
                           .dtype = dtype,
                           .root = static_cast<int>(number % static_cast<uint64_t>(size)),
                           .count = count,
                           .seed = seed + number + 1});
        }
      }
    }
  }
  return cases;
}

TEST_P(Processes, MatchReferenceWhateverEachRankChooses) {
  const uint64_t seed = TestSeed(31);
  SCOPED_TRACE(testing::Message() << "WEFT_TEST_SEED=" << seed);
  const std::vector<CollectiveCase> cases = Cases(GetParam(), seed);
  const CaseSample sample({.every = 5, .sanitized = 11}, seed);
  RunProcessRanks(GetParam(), [&](ProcessGroup& group) -> std::string {
    for (size_t i = 0; i < cases.size(); ++i) {
      if (!sample.Takes(i)) continue;
      const CollectiveCase& test = cases[i];
      std::string problem = RunCase(group, test, LocalChoice::FromSeed(test.seed, group.rank()));
      if (!problem.empty()) return problem;
    }
    return "";
  });
  sample.Print("mixture matrix on " + std::to_string(GetParam()) + " processes", cases.size());
}

TEST_P(Processes, SplitGroupsWork) {
  RunProcessRanks(GetParam(), [](ProcessGroup& group) -> std::string {
    auto part = group.Split(group.rank() % 2, group.rank(), {.name = "half"});
    if (!part.ok()) return Text(part.status());
    for (const Memory memory : {Memory::kPrivate, Memory::kSymmetric}) {
      const CollectiveCase test{.kind = OpKind::kAllReduce, .count = 50000, .seed = 3};
      std::string problem = RunCase(**part, test, {.in = memory, .out = memory});
      if (!problem.empty()) return problem;
    }
    (*part)->Close();
    return "";
  });
}

TEST_P(Processes, ReadEachOthersPrivateMemory) {
  RunProcessRanks(GetParam(), [](ProcessGroup& group) -> std::string {
    for (const OpKind kind : {OpKind::kAllGather, OpKind::kBroadcast, OpKind::kAllToAll,
                              OpKind::kGather, OpKind::kScatter, OpKind::kAllToAllV}) {
      for (const size_t count : {size_t{1}, size_t{1021}, size_t{300'000}}) {
        const CollectiveCase test{.kind = kind,
                                  .root = group.size() - 1,
                                  .count = count,
                                  .seed = 17 + count,
                                  .algorithm = Protocol::kSingleCopy};
        std::string problem = RunCase(group, test, LocalChoice{});
        if (!problem.empty()) return problem;
      }
    }
    return "";
  });
}

// Through one store, which is empty when all are made; every second one has the name of the one before it.
TEST_P(Processes, MakeGroupAfterGroup) {
  const TemporaryDirectory directory;
  const auto ends = RunForkedRanks(GetParam(), 120, [&](int rank) -> std::string {
    DirectoryStore store(directory.path());
    for (int round = 0; round < 20; ++round) {
      const std::string name = "group " + std::to_string(round / 2);
      auto group =
          MakeNodeGroup(&store, rank, GetParam(), {.name = name, .timeout_ns = 120'000'000'000});
      if (!group.ok()) return Text(group.status());
      const CollectiveCase test{.kind = OpKind::kAllReduce, .count = 100, .seed = 5};
      std::string problem = RunCase(**group, test, LocalChoice{});
      (*group)->Close();
      if (!problem.empty()) return problem;
    }
    return "";
  });
  for (const auto& end : ends)
    EXPECT_EQ(end.Problem(), "");
  for (const auto& file : std::filesystem::directory_iterator(directory.path()))
    ADD_FAILURE() << "left in the store: " << file.path().filename();
}

INSTANTIATE_TEST_SUITE_P(RankSet, Processes, ::testing::ValuesIn(kProcessRanks));

// Rank 2 of 4 is killed in an all_reduce loop: the others say so within a second.
void KillOneOfFour(size_t count, bool heap, bool asynchronous) {
  constexpr int kSize = 4;
  constexpr int kVictim = 2;
  RunProcessRanks(kSize,
                  [&](ProcessGroup& group) -> std::string {
                    const size_t bytes = count * sizeof(float);
                    std::vector<float> own(heap ? 0 : count);
                    void* const data = heap ? *ProcessHeap().Allocate(bytes) : own.data();
                    const pid_t self = getpid();
                    Collective call{
                        .kind = OpKind::kAllReduce, .dtype = WEFT_FLOAT32, .count = count};
                    call.in = call.out = data;
                    std::vector<int32_t> pids(kSize);
                    Collective gather{.kind = OpKind::kAllGather, .dtype = WEFT_INT32, .count = 1};
                    gather.in = &self;
                    gather.out = pids.data();
                    if (!group.Run(gather).ok()) return "could not gather the pids";
                    absl::Status status;
                    int64_t called_ns = 0;
                    for (int i = 0; status.ok() && i < 1'000'000; ++i) {
                      if (group.rank() == kVictim && i == 200) kill(self, SIGKILL);
                      called_ns = MonotonicNs();
                      if (asynchronous) {
                        auto work = group.Start(call);
                        status = work.ok() ? (*work)->Wait(0) : work.status();
                      } else {
                        status = group.Run(call);
                      }
                    }
                    const int64_t took_ns = MonotonicNs() - called_ns;
                    if (heap) (void)ProcessHeap().Free(data);
                    const ErrorFields fields = FieldsOf(status);
                    if (ResultOf(status) != WEFT_PEER_LOST) return "got: " + Text(status);
                    if (fields.rank != kVictim || fields.pid != pids[kVictim])
                      return "blames: " + Text(status);
                    if (fields.signal != SIGKILL) return "signal unknown: " + Text(status);
                    if (fields.host.empty()) return "no host";
                    return took_ns < 1'000'000'000 ? "" : "took " + std::to_string(took_ns) + " ns";
                  },
                  {kVictim});
}

TEST(KilledRank, IsNamedBySmallOperations) {
  KillOneOfFour(2, false, false);
}

TEST(KilledRank, IsNamedByLargePrivateOperations) {
  KillOneOfFour(200'000, false, false);
}

TEST(KilledRank, IsNamedByLargeSymmetricOperations) {
  KillOneOfFour(200'000, true, false);
}

TEST(KilledRank, IsNamedByAsynchronousOperations) {
  KillOneOfFour(20'000, false, true);
}

// A stopped rank is not dead: the deadline says that it is stopped, and private memory is not touched
// any more once it goes on.
TEST(StoppedRank, IsReportedAsStoppedAtTheDeadline) {
  RunProcessRanks(2, [](ProcessGroup& group) -> std::string {
    const pid_t self = getpid();
    std::vector<int32_t> pids(2);
    Collective gather{.kind = OpKind::kAllGather, .dtype = WEFT_INT32, .count = 1};
    gather.in = &self;
    gather.out = pids.data();
    if (!group.Run(gather).ok()) return "could not gather the pids";
    if (group.rank() == 1) {
      raise(SIGSTOP);
      const absl::Status late = group.Run({.kind = OpKind::kBarrier});
      return ResultOf(late) == WEFT_TIMEOUT ? "" : "after SIGCONT: " + Text(late);
    }
    Collective call{.kind = OpKind::kBarrier};
    call.timeout_ns = 500'000'000;
    const absl::Status status = group.Run(call);
    kill(pids[1], SIGCONT);
    if (ResultOf(status) != WEFT_TIMEOUT) return "got: " + Text(status);
    return Text(status).find("process stopped") != std::string::npos ? "" : Text(status);
  });
}

// Its buffer is symmetric and it cannot answer: the block is put in quarantine and the error says so.
TEST(StoppedRank, CostsASymmetricBlockIfItWasWorkingOnIt) {
  constexpr size_t kCount = 64 << 20;
  RunProcessRanks(2, [](ProcessGroup& group) -> std::string {
    const pid_t self = getpid();
    std::vector<int32_t> pids(2);
    Collective gather{.kind = OpKind::kAllGather, .dtype = WEFT_INT32, .count = 1};
    gather.in = &self;
    gather.out = pids.data();
    if (!group.Run(gather).ok()) return "could not gather the pids";
    void* const data = *ProcessHeap().Allocate(kCount);
    Collective call{.kind = OpKind::kAllReduce, .dtype = WEFT_UINT8, .count = kCount};
    call.in = call.out = data;
    const pid_t stopper = group.rank() == 0 ? fork() : -1;
    if (stopper == 0) {  // stops rank 1 somewhere inside one of its operations
      usleep(200'000);
      kill(pids[1], SIGSTOP);
      _exit(0);
    }
    call.timeout_ns = 1'000'000'000;
    absl::Status status;
    while (status.ok())
      status = group.Run(call);
    if (group.rank() == 1) {
      (void)ProcessHeap().Free(data);
      return ResultOf(status) == WEFT_TIMEOUT ? "" : "after SIGCONT: " + Text(status);
    }
    waitpid(stopper, nullptr, 0);
    const bool quarantined = Text(status).find("quarantine") != std::string::npos;
    const size_t live = ProcessHeap().live_bytes();
    (void)ProcessHeap().Free(data);
    const bool kept = ProcessHeap().live_bytes() == live;
    kill(pids[1], SIGCONT);
    if (ResultOf(status) != WEFT_TIMEOUT) return "got: " + Text(status);
    // Where it was stopped is chance; the block is kept if, and only if, the message says so.
    if (quarantined != kept) return "message and heap disagree: " + Text(status);
    _exit(0);  // a quarantined block stays, so the leak check does not apply
  });
}

TEST(MakingAGroup, MissingRankIsNamedAtTheDeadline) {
  const TemporaryDirectory directory;
  const auto ends = RunForkedRanks(3, 30, [&](int rank) -> std::string {
    if (rank == 1) return "";
    const Holdings before = Holdings::Now();
    DirectoryStore store(directory.path());
    const auto group =
        MakeNodeGroup(&store, rank, 3, {.name = "p", .init_timeout_ns = 700'000'000});
    if (group.ok()) return "made a group without rank 1";
    if (ResultOf(group.status()) != WEFT_TIMEOUT) return "got: " + Text(group.status());
    if (Text(group.status()).find("1") == std::string::npos) return Text(group.status());
    return Holdings::Now().Since(before);
  });
  for (const RankEnd& end : ends)
    EXPECT_EQ(end.Problem(), "");
}

}  // namespace
}  // namespace weft::test::process_test
