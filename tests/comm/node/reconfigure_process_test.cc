// Groups that go on after ranks were killed: any of them, several, the one that leads, at any moment of the agreement, until one
// is left; who is stopped is waited for and named; and nothing is left of those that are gone.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"
#include "collective_case.h"
#include "comm/node/heap.h"
#include "comm/node/make_group.h"
#include "directory_store.h"
#include "left_behind.h"
#include "message_case.h"
#include "reconfigured_ranks.h"
#include "tests/support/forked_ranks.h"
#include "tests/support/leak_check.h"
#include "tests/support/shared_value.h"

namespace weft::test::reconfigure_process_test {
namespace {

constexpr double kLimitS = 120;

using Body = std::function<std::string(std::shared_ptr<ProcessGroup>& group, int rank)>;

// Each rank is a process, makes the group and runs the body, which may exchange it; then it holds nothing more than before.
// Those in `killed` end by a signal.
void OnProcesses(int size, const std::vector<int>& killed, const Body& body) {
  const TemporaryDirectory directory;
  const auto ends = RunForkedRanks(size, kLimitS, [&](int rank) -> std::string {
    const Holdings before = Holdings::Now();
    std::string problem;
    {
      DirectoryStore store(directory.path());
      auto made = MakeNodeGroup(&store, rank, size, {.name = "old", .timeout_ns = kReconfigureNs});
      if (!made.ok()) return Text(made.status());
      std::shared_ptr<ProcessGroup> group = *std::move(made);
      problem = body(group, rank);
      if (group != nullptr) group->Close();
    }
    if (!problem.empty()) return problem;
    return LeftBehind(before);
  });
  for (int rank = 0; rank < size; ++rank) {
    const RankEnd& end = ends[static_cast<size_t>(rank)];
    if (std::find(killed.begin(), killed.end(), rank) != killed.end()) {
      EXPECT_TRUE(WIFSIGNALED(end.wait_status)) << "rank " << rank << ": " << end.said;
    } else {
      EXPECT_EQ(end.Problem(), "") << "rank " << rank;
    }
  }
}

std::vector<int> AllBut(int size, const std::vector<int>& gone) {
  std::vector<int> rest;
  for (int rank = 0; rank < size; ++rank) {
    if (std::find(gone.begin(), gone.end(), rank) == gone.end()) rest.push_back(rank);
  }
  return rest;
}

ExpectedPlace PlaceAmong(const std::vector<int>& members, int rank) {
  const auto place = std::find(members.begin(), members.end(), rank);
  return {static_cast<int>(members.size()), static_cast<int>(place - members.begin()), rank};
}

struct Killing {
  int size;
  std::vector<int> victims;
};

std::vector<Killing> Killings() {
  std::vector<Killing> killings;
  for (const int size : {2, 3, 4, 8}) {
    for (int victim = 0; victim < size; victim += size == 8 ? 3 : 1)
      killings.push_back({size, {victim}});
  }
  killings.insert(killings.end(),
                  {{3, {0, 1}}, {4, {0, 3}}, {8, {0, 1}}, {8, {2, 5}}, {8, {0, 1, 2, 3, 4, 5, 6}}});
  return killings;
}

class RanksKilled : public testing::TestWithParam<Killing> {};

// In an operation that the others wait in; who has found the death goes on at once.
TEST_P(RanksKilled, AreLeftBehind) {
  const int size = GetParam().size;
  const std::vector<int>& victims = GetParam().victims;
  OnProcesses(size, victims, [&](std::shared_ptr<ProcessGroup>& group, int rank) -> std::string {
    if (const absl::Status met = group->Run(Collective{.kind = OpKind::kBarrier}); !met.ok()) {
      return Text(met);
    }
    if (std::find(victims.begin(), victims.end(), rank) != victims.end()) raise(SIGKILL);
    const absl::Status lost = group->Run(Collective{.kind = OpKind::kBarrier});
    if (ResultOf(lost) != WEFT_PEER_LOST) return "not lost: " + Text(lost);
    const int64_t start_ns = MonotonicNs();
    if (std::string problem = GoOn(&group); !problem.empty()) return problem;
    const int64_t took_ns = MonotonicNs() - start_ns;
    std::printf("%d ranks, rank %d: anew after %.2f ms\n", size, rank,
                static_cast<double>(took_ns) * 1e-6);
    std::fflush(stdout);
    std::string problem = CheckPlace(*group, PlaceAmong(AllBut(size, victims), rank));
    if (!problem.empty()) return problem;
    return took_ns < 10'000'000'000 ? "" : "late";
  });
}

// A group that works, of which nobody knows yet that a rank is gone.
TEST_P(RanksKilled, AreLeftBehindWhereNobodyHasNoticed) {
  const int size = GetParam().size;
  const std::vector<int>& victims = GetParam().victims;
  OnProcesses(size, victims, [&](std::shared_ptr<ProcessGroup>& group, int rank) -> std::string {
    if (std::find(victims.begin(), victims.end(), rank) != victims.end()) raise(SIGKILL);
    std::vector<int> members = AllBut(size, victims);
    std::reverse(members.begin(), members.end());
    // Where it is listed, all are told of it.
    std::vector<int> all(static_cast<size_t>(size));
    std::iota(all.begin(), all.end(), 0);
    const auto none = group->Reconfigure(all, {.name = ""});
    if (ResultOf(none.status()) != WEFT_PEER_LOST) return "not lost: " + Text(none.status());
    if (FieldsOf(none.status()).rank != victims[0]) return "another: " + Text(none.status());
    if (FieldsOf(none.status()).signal != SIGKILL) return "how? " + Text(none.status());
    if (std::string problem = GoOn(&group, members); !problem.empty()) return problem;
    return CheckPlace(*group, PlaceAmong(members, rank));
  });
}

INSTANTIATE_TEST_SUITE_P(Any, RanksKilled, testing::ValuesIn(Killings()), [](const auto& info) {
  std::string name = "Of" + std::to_string(info.param.size) + "Rank";
  for (const int victim : info.param.victims)
    name += "_" + std::to_string(victim);
  return name;
});

// Goes on until a group of those that live has met. A member that has died since they agreed is found by the meeting.
std::string GoOnUntilMet(std::shared_ptr<ProcessGroup>* group) {
  for (int attempt = 0; attempt < 20; ++attempt) {
    if (std::string problem = GoOn(group); !problem.empty()) return problem;
    const absl::Status met = (*group)->Run(Collective{.kind = OpKind::kBarrier});
    if (met.ok()) return "";
    if (ResultOf(met) != WEFT_PEER_LOST && ResultOf(met) != WEFT_ABORTED) return Text(met);
  }
  return "never met";
}

// Ranks are killed at some moment of the agreement: before they vote, while they wait, make the segment, decide or join, or later. The
// one that would lead, any other one, or two.
TEST(WhileTheyAgree, AnyMayBeKilled) {
  const uint64_t seed = TestSeed(23);
  SCOPED_TRACE(testing::Message() << "WEFT_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 36; ++round) {
    const bool two = round % 3 == 2;
    const int size = (two ? 3 : 2) + static_cast<int>(random() % 3);
    std::vector<int> victims{
        round % 3 == 0 ? 0 : static_cast<int>(random() % static_cast<uint64_t>(size))};
    if (two) victims.push_back((victims[0] + 1) % size);
    const std::vector<int> survivors = AllBut(size, victims);
    const auto delay_ns = static_cast<int64_t>(random() % (round % 2 == 0 ? 400'000 : 4'000'000));
    OnProcesses(size, victims, [&](std::shared_ptr<ProcessGroup>& group, int rank) -> std::string {
      if (const absl::Status met = group->Run(Collective{.kind = OpKind::kBarrier}); !met.ok()) {
        return Text(met);
      }
      if (std::find(victims.begin(), victims.end(), rank) != victims.end()) {
        std::thread killer([&] {
          const timespec delay{0, delay_ns};
          nanosleep(&delay, nullptr);
          kill(getpid(), SIGKILL);
        });
        while (GoOnUntilMet(&group).empty()) {
        }
        killer.join();
        return "it lives";
      }
      // As long as they live, all go on with them.
      while (group->size() > static_cast<int>(survivors.size())) {
        if (std::string problem = GoOnUntilMet(&group); !problem.empty()) return problem;
      }
      const ExpectedPlace place = PlaceAmong(survivors, rank);
      if (group->rank() != place.rank || group->world_rank(group->rank()) != rank) {
        return "rank " + std::to_string(group->rank());
      }
      const CollectiveCase test{.count = 30'000, .seed = 5};
      return RunCase(*group, test, {.in = Memory::kSymmetric});
    });
    if (HasFailure()) break;
  }
}

TEST(TheLastOne, GoesOnAlone) {
  constexpr int kSize = 4;
  OnProcesses(kSize, {0, 1, 2}, [&](std::shared_ptr<ProcessGroup>& group, int rank) -> std::string {
    for (int victim = 0; victim < kSize - 1; ++victim) {
      if (rank == victim) raise(SIGKILL);
      if (std::string problem = GoOnUntilMet(&group); !problem.empty()) return problem;
      while (group->size() > kSize - 1 - victim) {
        if (std::string problem = GoOnUntilMet(&group); !problem.empty()) return problem;
      }
      const CollectiveCase test{.count = 1000, .seed = 5};
      if (std::string problem = RunCase(*group, test, {}); !problem.empty()) return problem;
    }
    return group->size() == 1 && group->world_rank(0) == kSize - 1 ? "" : "not alone";
  });
}

// Silence is no death. Rank 1 is stopped, named, continued, and a member again.
TEST(AStoppedRank, IsNamedAndComesLater) {
  constexpr int kSize = 3;
  int told[2] = {-1, -1};
  ASSERT_EQ(pipe(told), 0);
  OnProcesses(kSize, {}, [&](std::shared_ptr<ProcessGroup>& group, int rank) -> std::string {
    int32_t pids[kSize] = {};
    const int32_t self = getpid();
    Collective gather{.kind = OpKind::kAllGather, .dtype = WEFT_INT32, .count = 1};
    gather.in = &self;
    gather.out = pids;
    if (const absl::Status status = group->Run(gather); !status.ok()) return Text(status);
    if (rank == 1) {
      raise(SIGSTOP);
    } else {
      const auto next = group->Reconfigure({}, {.name = "", .init_timeout_ns = 1'000'000'000});
      const std::string said = Text(next.status());
      if (ResultOf(next.status()) != WEFT_TIMEOUT) return "not late: " + said;
      if (FieldsOf(next.status()).rank != 1 || FieldsOf(next.status()).pid != pids[1] ||
          said.find("process stopped") == std::string::npos) {
        return "another: " + said;
      }
      char byte = 0;
      if (rank == 2 && write(told[1], &byte, 1) != 1) return "write";
      if (rank == 0 && read(told[0], &byte, 1) != 1) return "read";
      if (rank == 0) kill(pids[1], SIGCONT);
    }
    if (std::string problem = GoOn(&group); !problem.empty()) return problem;
    return CheckPlace(*group, {kSize, rank, rank});
  });
  close(told[0]);
  close(told[1]);
}

// Rank 0 would lead and has no memory for the segment: all are told, and when it has, they go on.
TEST(ALeaderWithoutMemory, IsNamedAndLeadsLater) {
  setenv("WEFT_HEAP_BYTES", "64M", 1);  // of the ranks; this process makes no heap
  OnProcesses(3, {}, [&](std::shared_ptr<ProcessGroup>& group, int rank) -> std::string {
    std::vector<void*> blocks;
    if (rank == 0) {
      for (size_t bytes = size_t{4} << 20; bytes >= 4096;) {
        const absl::StatusOr<void*> block = ProcessHeap().Allocate(bytes);
        if (block.ok()) {
          blocks.push_back(*block);
        } else {
          bytes /= 2;
        }
      }
    }
    if (const absl::Status met = group->Run(Collective{.kind = OpKind::kBarrier}); !met.ok()) {
      return Text(met);
    }
    const auto next = group->Reconfigure({}, {.name = "", .init_timeout_ns = kReconfigureNs});
    for (void* const block : blocks)
      (void)ProcessHeap().Free(block);
    const weft_result_t wanted = rank == 0 ? WEFT_OUT_OF_MEMORY : WEFT_REMOTE_ERROR;
    if (ResultOf(next.status()) != wanted) return "another: " + Text(next.status());
    if (rank != 0 && FieldsOf(next.status()).rank != 0) return "another culprit";
    if (!group->error().ok()) return "the group has ended: " + Text(group->error());
    if (std::string problem = GoOn(&group); !problem.empty()) return problem;
    return CheckPlace(*group, {3, rank, rank});
  });
  unsetenv("WEFT_HEAP_BYTES");
}

// Rank 0 has voted and would lead, but is stopped when the last one comes.
TEST(AStoppedLeader, IsNamedAndLeadsLater) {
  constexpr int kSize = 3;
  OnProcesses(kSize, {}, [&](std::shared_ptr<ProcessGroup>& group, int rank) -> std::string {
    int32_t pids[kSize] = {};
    const int32_t self = getpid();
    Collective gather{.kind = OpKind::kAllGather, .dtype = WEFT_INT32, .count = 1};
    gather.in = &self;
    gather.out = pids;
    if (const absl::Status status = group->Run(gather); !status.ok()) return Text(status);
    std::thread stopper;
    const timespec moment{0, 300'000'000};
    if (rank == 0) {
      stopper = std::thread([&] {
        nanosleep(&moment, nullptr);
        kill(self, SIGSTOP);
      });
    } else if (rank == 2) {
      nanosleep(&moment, nullptr);
      nanosleep(&moment, nullptr);
    }
    const auto next = group->Reconfigure({}, {.name = "", .init_timeout_ns = 2'000'000'000});
    if (rank == 1) kill(pids[0], SIGCONT);
    if (stopper.joinable()) stopper.join();
    const std::string said = Text(next.status());
    if (ResultOf(next.status()) != WEFT_TIMEOUT || FieldsOf(next.status()).rank != 0 ||
        said.find("called weft_group_reconfigure, but did not go on") == std::string::npos) {
      return "another: " + said;
    }
    if (std::string problem = GoOn(&group); !problem.empty()) return problem;
    return CheckPlace(*group, {kSize, rank, rank});
  });
}

// Messages and operations that wait for the dead rank, and one another thread is in.
TEST(WhatWaitsForADeadRank, HasEnded) {
  const SharedValue<std::atomic<int>> started;
  OnProcesses(3, {2}, [&](std::shared_ptr<ProcessGroup>& group, int rank) -> std::string {
    if (const absl::Status met = group->Run(Collective{.kind = OpKind::kBarrier}); !met.ok()) {
      return Text(met);
    }
    if (rank == 2) {
      const timespec moment{0, 1'000'000};
      while (started->load() < 2)
        nanosleep(&moment, nullptr);
      raise(SIGKILL);
    }
    const std::shared_ptr<ProcessGroup> old = group;
    std::vector<float> x(100'000, 1.0F);
    float got = 0;
    Collective sum{.kind = OpKind::kAllReduce, .count = x.size()};
    sum.in = x.data();
    sum.out = x.data();
    Message receive{.count = 1, .dtype = WEFT_FLOAT32, .peer = 2};
    receive.out = &got;
    const WorkRef works[] = {old->Start(sum).value(), old->Start(receive).value()};
    started->fetch_add(1);
    absl::Status blocked;
    std::thread caller([&] {
      float other = 0;
      Message again = receive;
      again.out = &other;
      blocked = old->Run(again);
    });
    // The other thread may just be about to call.
    std::string problem = GoOnUntilMet(&group);
    caller.join();
    if (!problem.empty()) return problem;
    for (const WorkRef& work : works) {
      if (!work->ended()) return "a work has not ended";
      if (work->status().ok()) return "a work ended well";
    }
    if (blocked.ok()) return "a call ended well";
    return group->size() == 2 ? "" : "size " + std::to_string(group->size());
  });
}

// How many rounds the ranks that stay have begun.
struct RoundsBegun {
  void Note(int round) {
    int known = last.load();
    while (known < round && !last.compare_exchange_weak(known, round)) {
    }
    NotifyAll(woken);
  }

  // False if that has not come about when the test has to end.
  bool Await(int round) {
    Deadline deadline{static_cast<int64_t>(kLimitS * 1e9)};
    return WaitUntil(
               woken, WaitPolicy{.spins = 0, .yields = 0}, deadline,
               [&] { return last.load() >= round; }, [] { return false; }) == WaitResult::kReady;
  }

  EventCount woken;
  std::atomic<int> last{-1};
};

// Two ranks live through many groups of three whose third is killed, and hold no more at the end than at the beginning.
TEST(Rounds, OfKillingAndGoingOnLeaveNothingBehind) {
#ifdef WEFT_SANITIZE
  constexpr int kRounds = 10;
#else
  constexpr int kRounds = 60;
#endif
  constexpr int kAhead = 5;
  const TemporaryDirectory directory;
  const SharedValue<RoundsBegun> begun;
  const auto ends = RunForkedRanks(2 + kRounds, kLimitS, [&](int process) -> std::string {
    DirectoryStore store(directory.path());
    const auto make = [&](int round, int rank) {
      return MakeNodeGroup(
          &store, rank, 3,
          {.name = "round " + std::to_string(round), .timeout_ns = kReconfigureNs});
    };
    if (process >= 2) {
      const int round = process - 2;
      // Soon enough to be there first, but not much sooner: on a busy machine all rounds take longer than making a group may.
      if (!begun->Await(round - kAhead)) return StrCat("round ", round - kAhead, " did not begin");
      // Any place: it leads every third time.
      auto group = make(round, round % 3);
      if (!group.ok()) return Text(group.status());
      raise(SIGKILL);
    }
    const Holdings before = Holdings::Now();
    for (int round = 0; round < kRounds; ++round) {
      const int victim = round % 3;
      begun->Note(round);
      auto made = make(round, process < victim ? process : process + 1);
      if (!made.ok()) return Text(made.status());
      std::shared_ptr<ProcessGroup> group = *std::move(made);
      while (group->size() == 3) {
        if (std::string problem = GoOnUntilMet(&group); !problem.empty()) return problem;
      }
      const CollectiveCase test{.count = 20'000, .seed = 5};
      std::string problem = RunCase(*group, test, {.in = Memory::kSymmetric});
      group->Close();
      if (!problem.empty()) return problem;
    }
    return LeftBehind(before);
  });
  for (size_t process = 0; process < ends.size(); ++process) {
    if (process < 2) {
      EXPECT_EQ(ends[process].Problem(), "") << "rank " << process;
    } else {
      EXPECT_TRUE(WIFSIGNALED(ends[process].wait_status)) << ends[process].said;
    }
  }
}

// The same processes go on a thousand times; every time with other numbers.
TEST(Rounds, OfRenumberingLeaveNothingBehind) {
#ifdef WEFT_SANITIZE
  constexpr int kRounds = 100;
#else
  constexpr int kRounds = 1000;
#endif
  OnProcesses(3, {}, [&](std::shared_ptr<ProcessGroup>& group, int) -> std::string {
    Holdings early;
    for (int round = 0; round < kRounds; ++round) {
      if (std::string problem = GoOn(&group, {1, 2, 0}); !problem.empty()) return problem;
      if (round % 50 != 0) continue;
      const CollectiveCase test{.count = 20'000, .seed = 5};
      if (std::string problem = RunCase(*group, test, {}); !problem.empty()) return problem;
      if (round == 0) early = Holdings::Now();
    }
    const std::string more = Holdings::Now().Since(early);
    return more.empty() ? "" : "it grows: " + more;
  });
}

}  // namespace
}  // namespace weft::test::reconfigure_process_test
