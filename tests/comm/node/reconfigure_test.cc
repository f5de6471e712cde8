// Groups that are made anew, in place: other numbers, fewer ranks, ranks that have left, and what happens to what was under way.
// Ranks are threads here; deaths are in reconfigure_process_test.cc.
#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/interrupt.h"
#include "base/status.h"
#include "base/wait.h"
#include "collective_case.h"
#include "comm/node/make_group.h"
#include "message_case.h"
#include "rank_threads.h"
#include "reconfigured_ranks.h"
#include "tests/support/leak_check.h"

namespace weft::test::reconfigure_test {
namespace {

using Body = std::function<std::string(std::shared_ptr<ProcessGroup>& group, int rank)>;

// Each rank has a thread, which may exchange its group and closes what it ends with.
void OnRanks(int size, const Body& body) {
  auto groups = CreateLocalGroups(size, {.name = "old", .timeout_ns = kReconfigureNs}).value();
  std::vector<std::string> problems(static_cast<size_t>(size));
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(size));
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      const auto index = static_cast<size_t>(rank);
      std::shared_ptr<ProcessGroup>& group = groups[index];
      problems[index] = body(group, rank);
      if (group == nullptr) return;
      if (!problems[index].empty()) group->Abort("the test has failed");
      group->Close();
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  for (int rank = 0; rank < size; ++rank)
    EXPECT_EQ(problems[static_cast<size_t>(rank)], "") << "rank " << rank;
}

int PlaceIn(const std::vector<int>& list, int rank) {
  const auto place = std::find(list.begin(), list.end(), rank);
  return place == list.end() ? -1 : static_cast<int>(place - list.begin());
}

// "" if `status` is what it should be.
std::string Expect(const absl::Status& status, weft_result_t result, const std::string& needle) {
  if (ResultOf(status) == result && Text(status).find(needle) != std::string::npos) return "";
  return "not " + std::to_string(result) + " with \"" + needle +
         "\": " + std::to_string(ResultOf(status)) + " " + Text(status);
}

// Ranks that wait for each other outside of the group; "" or that not all have come.
class Count {
 public:
  void Add() { count_.fetch_add(1); }

  bool Reached(int wanted) const { return count_.load() >= wanted; }

  std::string Await(int wanted) const {
    const int64_t start_ns = MonotonicNs();
    while (!Reached(wanted)) {
      if (MonotonicNs() - start_ns > kReconfigureNs / 2) return "not all ranks have come so far";
      std::this_thread::yield();
    }
    return "";
  }

 private:
  std::atomic<int> count_{0};
};

class Reconfigure : public testing::TestWithParam<int> {};

TEST_P(Reconfigure, WithoutAListAllGoOnAsTheyAre) {
  OnRanks(GetParam(), [](std::shared_ptr<ProcessGroup>& group, int rank) -> std::string {
    for (int round = 0; round < 3; ++round) {
      const CollectiveCase test{.count = 1000, .seed = 5};
      if (std::string problem = RunCase(*group, test, {}); !problem.empty()) return problem;
      if (std::string problem = GoOn(&group); !problem.empty()) return problem;
      if (group->name() != "old") return "another name: " + group->name();
      std::string problem = CheckPlace(*group, {GetParam(), rank, rank});
      if (!problem.empty()) return problem;
    }
    return "";
  });
}

TEST_P(Reconfigure, RanksAreThePlacesInTheList) {
  const uint64_t seed = TestSeed(11);
  SCOPED_TRACE(testing::Message() << "WEFT_TEST_SEED=" << seed);
  std::mt19937 random(static_cast<uint32_t>(seed));
  for (int round = 0; round < 5; ++round) {
    std::vector<int> list(static_cast<size_t>(GetParam()));
    std::iota(list.begin(), list.end(), 0);
    std::shuffle(list.begin(), list.end(), random);
    list.resize(1 + random() % list.size());
    OnRanks(GetParam(), [&](std::shared_ptr<ProcessGroup>& group, int rank) -> std::string {
      const std::shared_ptr<ProcessGroup> old = group;
      if (std::string problem = GoOn(&group, list); !problem.empty()) return problem;
      if (std::string problem = Expect(old->Run(Collective{.kind = OpKind::kBarrier}), WEFT_ABORTED,
                                       "was reconfigured");
          !problem.empty()) {
        return problem;
      }
      const int place = PlaceIn(list, rank);
      if (place < 0) return group == nullptr ? "" : "a group for a rank that is not listed";
      return CheckPlace(*group, {static_cast<int>(list.size()), place, rank});
    });
  }
}

// The second list is in terms of the first group; the world's ranks stay what they were.
TEST_P(Reconfigure, AgainAndAgain) {
  const int size = GetParam();
  if (size < 3) return;
  OnRanks(size, [&](std::shared_ptr<ProcessGroup>& group, int rank) -> std::string {
    std::vector<int> world(static_cast<size_t>(size));
    std::iota(world.begin(), world.end(), 0);
    while (world.size() > 1) {
      // The last becomes the first, the first goes.
      std::vector<int> list(world.size());
      std::iota(list.begin(), list.end(), 0);
      std::rotate(list.begin(), list.end() - 1, list.end());
      list.erase(list.begin() + 1);
      std::vector<int> next;
      next.reserve(list.size());
      for (const int member : list)
        next.push_back(world[static_cast<size_t>(member)]);
      world = next;
      if (std::string problem = GoOn(&group, list); !problem.empty()) return problem;
      const int place = PlaceIn(world, rank);
      if (place < 0) return group == nullptr ? "" : "a group for a rank that is not listed";
      std::string problem = CheckPlace(*group, {static_cast<int>(world.size()), place, rank});
      if (!problem.empty()) return problem;
    }
    return "";
  });
}

TEST_P(Reconfigure, AnotherListIsNamedAndTheGroupGoesOn) {
  const int size = GetParam();
  if (size < 2) return;
  OnRanks(size, [&](std::shared_ptr<ProcessGroup>& group, int rank) -> std::string {
    const int outlier = size - 1;
    std::vector<int> list{0, 1};
    if (rank == outlier) list = {1, 0};
    const auto next = group->Reconfigure(list, {.name = ""});
    const std::string named = "rank " + std::to_string(outlier) + " passed another list";
    if (std::string problem = Expect(next.status(), WEFT_MISMATCH, named); !problem.empty()) {
      return problem;
    }
    if (FieldsOf(next.status()).rank != outlier) return "another culprit";
    const CollectiveCase test{.count = 1000, .seed = 5};
    if (std::string problem = RunCase(*group, test, {}); !problem.empty()) return problem;
    if (std::string problem = GoOn(&group); !problem.empty()) return problem;
    return CheckPlace(*group, {size, rank, rank});
  });
}

TEST_P(Reconfigure, ARankThatHasLeftIsGone) {
  const int size = GetParam();
  if (size < 2) return;
  OnRanks(size, [&](std::shared_ptr<ProcessGroup>& group, int rank) -> std::string {
    if (rank == 0) {
      group->Close();
      return "";
    }
    // Whoever asks for it is told, and nothing has changed.
    std::vector<int> all(static_cast<size_t>(size));
    std::iota(all.begin(), all.end(), 0);
    const auto next = group->Reconfigure(all, {.name = ""});
    if (std::string problem = Expect(next.status(), WEFT_PEER_LOST, "has left the group");
        !problem.empty()) {
      return problem;
    }
    if (FieldsOf(next.status()).rank != 0) return "another culprit";
    if (std::string problem = GoOn(&group); !problem.empty()) return problem;
    return CheckPlace(*group, {size - 1, rank - 1, rank});
  });
}

TEST_P(Reconfigure, AGroupThatHasFailedWorksAgain) {
  OnRanks(GetParam(), [&](std::shared_ptr<ProcessGroup>& group, int rank) -> std::string {
    if (rank == GetParam() - 1) group->Abort("this rank has had enough");
    while (group->error().ok())
      std::this_thread::yield();
    if (std::string problem = GoOn(&group); !problem.empty()) return problem;
    return CheckPlace(*group, {GetParam(), rank, rank});
  });
}

TEST_P(Reconfigure, WhatIsUnderWayHasEnded) {
  const int size = GetParam();
  if (size < 2) return;
  OnRanks(size, [&](std::shared_ptr<ProcessGroup>& group, int rank) -> std::string {
    std::vector<float> x(30'000, 1.0F);
    float got = 0;
    std::vector<WorkRef> works;
    if (rank != 0) {  // who does not take part
      Collective sum{.kind = OpKind::kAllReduce, .count = x.size()};
      sum.in = x.data();
      sum.out = x.data();
      works.push_back(group->Start(sum).value());
      Message receive{.count = 1, .dtype = WEFT_FLOAT32, .peer = 0};
      receive.out = &got;
      works.push_back(group->Start(receive).value());
    }
    if (std::string problem = GoOn(&group); !problem.empty()) return problem;
    for (const WorkRef& work : works) {
      if (!work->ended()) return "a work has not ended";
      if (std::string problem = Expect(work->status(), WEFT_ABORTED, "reconfigured");
          !problem.empty()) {
        return problem;
      }
    }
    return CheckPlace(*group, {size, rank, rank});
  });
}

// A thread of each rank is in a call that can never end; another one reconfigures.
TEST_P(Reconfigure, CallsOfOtherThreadsEnd) {
  const int size = GetParam();
  if (size < 2) return;
  OnRanks(size, [&](std::shared_ptr<ProcessGroup>& group, int rank) -> std::string {
    const std::shared_ptr<ProcessGroup> old = group;
    std::string blocked;
    std::thread caller([&] {
      int64_t number = rank;
      Message receive{.count = 1, .dtype = WEFT_INT64, .peer = (rank + 1) % size};
      receive.out = &number;
      const absl::Status status = rank % 2 == 0 && rank != 0
                                      ? old->Run(Collective{.kind = OpKind::kBarrier})
                                      : old->Run(receive);
      blocked = Expect(status, WEFT_ABORTED, "reconfigured");
    });
    std::string problem = GoOn(&group);
    caller.join();
    if (!problem.empty()) return problem;
    if (!blocked.empty()) return blocked;
    return CheckPlace(*group, {size, rank, rank});
  });
}

// Rank 0 reconfigures; the others wait for it in an operation, whose end tells them to come.
TEST_P(Reconfigure, ARankThatWaitsInAnOperationIsReleased) {
  const int size = GetParam();
  if (size < 2) return;
  OnRanks(size, [&](std::shared_ptr<ProcessGroup>& group, int rank) -> std::string {
    if (rank != 0) {
      const absl::Status status = group->Run(Collective{.kind = OpKind::kBarrier});
      std::string problem = Expect(status, WEFT_ABORTED, "reconfigured");
      if (!problem.empty()) return problem;
    }
    if (std::string problem = GoOn(&group); !problem.empty()) return problem;
    return CheckPlace(*group, {size, rank, rank});
  });
}

TEST_P(Reconfigure, WhoDoesNotComeIsNamedAndMayComeLater) {
  const int size = GetParam();
  if (size < 2) return;
  Count calling;
  Count given_up;
  OnRanks(size, [&](std::shared_ptr<ProcessGroup>& group, int rank) -> std::string {
    const int late = size - 1;
    if (rank == late) {
      if (std::string problem = given_up.Await(size - 1); !problem.empty()) return problem;
    } else {
      calling.Add();
      if (std::string problem = calling.Await(size - 1); !problem.empty()) return problem;
      const auto next = group->Reconfigure({}, {.name = "", .init_timeout_ns = 500'000'000});
      const std::string named = "rank " + std::to_string(late) + " (";
      if (std::string problem = Expect(next.status(), WEFT_TIMEOUT, named); !problem.empty()) {
        return problem;
      }
      if (FieldsOf(next.status()).rank != late) return "another culprit";
      if (group->error().ok()) return "the group has not ended";
      given_up.Add();
    }
    if (std::string problem = GoOn(&group); !problem.empty()) return problem;
    return CheckPlace(*group, {size, rank, rank});
  });
}

// Says so when all have called, half a second ago, which is time enough to vote.
struct PatientCheck {
  const Count& calling;
  int wanted;
  int64_t since_ns = 0;

  static int Ask(void* user) {
    auto* const check = static_cast<PatientCheck*>(user);
    if (!check->calling.Reached(check->wanted)) return 0;
    if (check->since_ns == 0) check->since_ns = MonotonicNs();
    return MonotonicNs() - check->since_ns > 500'000'000 ? 1 : 0;
  }
};

TEST_P(Reconfigure, AnInterruptEndsItOnAllRanks) {
  const int size = GetParam();
  if (size < 3) return;  // the last one does not come
  Count calling;
  Count given_up;
  OnRanks(size, [&](std::shared_ptr<ProcessGroup>& group, int rank) -> std::string {
    if (rank == size - 1) {
      if (std::string problem = given_up.Await(size - 1); !problem.empty()) return problem;
    } else {
      calling.Add();
      PatientCheck check{calling, size - 1};
      if (rank == 0) {
        SetInterrupt({.check = &PatientCheck::Ask, .user = &check, .every_ns = 1'000'000});
      }
      const auto next = group->Reconfigure({}, {.name = "", .init_timeout_ns = kReconfigureNs});
      SetInterrupt({});
      const weft_result_t wanted = rank == 0 ? WEFT_INTERRUPTED : WEFT_ABORTED;
      if (std::string problem = Expect(next.status(), wanted, "rank 0 was interrupted");
          !problem.empty()) {
        return problem;
      }
      given_up.Add();
    }
    if (std::string problem = GoOn(&group); !problem.empty()) return problem;
    return CheckPlace(*group, {size, rank, rank});
  });
}

TEST_P(Reconfigure, PartsOfTheOldGroupEndWithItAndAreMadeAnew) {
  const int size = GetParam();
  OnRanks(size, [&](std::shared_ptr<ProcessGroup>& group, int rank) -> std::string {
    const auto part = group->Split(0, -rank, {.name = "part"});
    if (!part.ok()) return Text(part.status());
    if (std::string problem = GoOn(&group); !problem.empty()) return problem;
    const CollectiveCase test{.count = 20'000, .seed = 5};
    const weft_result_t ended = ResultOf((*part)->Run({.kind = OpKind::kBarrier}));
    (*part)->Close();
    if (ended != WEFT_ABORTED && size > 1) return "the part goes on";
    std::string problem = CheckPlace(*group, {size, rank, rank});
    if (!problem.empty()) return problem;
    const auto anew = group->Split(0, -rank, {.name = "part"});
    if (!anew.ok()) return Text(anew.status());
    problem = RunCase(**anew, test, {});
    (*anew)->Close();
    return problem;
  });
}

TEST_P(Reconfigure, AThousandTimesLeavesNothingBehind) {
#ifdef WEFT_SANITIZE
  constexpr int kRounds = 100;
#else
  constexpr int kRounds = 1000;
#endif
  if (GetParam() > 3) return;
  { CreateLocalGroups(1, {.name = "first"}).value()[0]->Close(); }
  const Holdings before = Holdings::Now();
  OnRanks(GetParam(), [&](std::shared_ptr<ProcessGroup>& group, int rank) -> std::string {
    const int size = group->size();
    std::vector<int> list(static_cast<size_t>(size));
    std::iota(list.begin(), list.end(), 0);
    std::rotate(list.begin(), list.begin() + 1, list.end());
    for (int round = 0; round < kRounds; ++round) {
      if (std::string problem = GoOn(&group, list); !problem.empty()) return problem;
      const CollectiveCase test{.count = 100, .seed = 5};
      if (std::string problem = RunCase(*group, test, {}); !problem.empty()) return problem;
      if (group->stats().shared_bytes > 4'000'000) return "the group grows";
    }
    const int last = ((rank - kRounds) % size + size) % size;
    return group->rank() == last ? "" : "rank " + std::to_string(group->rank());
  });
  { CreateLocalGroups(1, {.name = "reaper"}).value()[0]->Close(); }
  EXPECT_EQ(Holdings::Now().Since(before), "");
}

INSTANTIATE_TEST_SUITE_P(RankSet, Reconfigure, testing::ValuesIn(kThreadRanks));

}  // namespace
}  // namespace weft::test::reconfigure_test
