// Groups that take in new processes: any number at any place, in place of ranks that were killed; with newcomers and ranks that die at
// any moment of it; a thousand times.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/status.h"
#include "base/wait.h"
#include "collective_case.h"
#include "comm/node/join_group.h"
#include "comm/node/make_group.h"
#include "comm/node/reconfigure_board.h"
#include "comm/rendezvous/newcomer_queue.h"
#include "directory_store.h"
#include "left_behind.h"
#include "message_case.h"
#include "reconfigured_ranks.h"
#include "tests/support/case_sample.h"
#include "tests/support/forked_ranks.h"
#include "tests/support/leak_check.h"
#include "tests/support/shared_value.h"

namespace weft::test::growth_test {
namespace {

constexpr double kLimitS = 120;
constexpr int kNew = kNewRank;

// One process of a test: a rank of the group from the beginning, or one that joins later.
struct Process {
  int number = 0;  // of all processes
  int first = 0;   // ranks of the beginning: number < first
  Store* store = nullptr;
  std::shared_ptr<ProcessGroup> group;  // of a rank

  std::string Make() {
    auto made = MakeNodeGroup(store, number, first, {.name = "g", .timeout_ns = kReconfigureNs});
    if (!made.ok()) return Text(made.status());
    group = *std::move(made);
    return "";
  }

  std::string Join(int world_rank = kNew, int64_t timeout_ns = kReconfigureNs) {
    auto joined = JoinNodeGroup(*store, {.name = "g", .timeout_ns = timeout_ns}, world_rank);
    if (!joined.ok()) return Text(joined.status());
    group = *std::move(joined);
    return "";
  }

  absl::Status Grow(const std::vector<int>& members, int64_t timeout_ns = kReconfigureNs) {
    auto next = group->Reconfigure(members,
                                   {.name = "", .init_timeout_ns = timeout_ns, .newcomers = store});
    if (next.ok()) group = *std::move(next);
    return next.status();
  }

  absl::Status Meet() const { return group->Run(Collective{.kind = OpKind::kBarrier}); }

  // With those that live, until they have met.
  std::string Shrink() {
    for (int attempt = 0; attempt < 20; ++attempt) {
      if (std::string problem = GoOn(&group); !problem.empty()) return problem;
      const absl::Status met = Meet();
      if (met.ok()) return "";
      if (ResultOf(met) != WEFT_PEER_LOST && ResultOf(met) != WEFT_ABORTED) return Text(met);
    }
    return "never met";
  }
};

// In a group that was made with newcomers, whose ranks have met twice.
std::string CheckGrown(const Process& self, ExpectedPlace place) {
  place.sequence = 2;
  return CheckPlace(*self.group, place);
}

using Body = std::function<std::string(Process& self)>;

// `first` ranks make a group, `later` processes are there beside them; all hold nothing more at the end than at the beginning.
void OnProcesses(int first, int later, const std::vector<int>& killed, const Body& body) {
  const TemporaryDirectory directory;
  const auto ends = RunForkedRanks(first + later, kLimitS, [&](int number) -> std::string {
    const Holdings before = Holdings::Now();
    std::string problem;
    {
      DirectoryStore store(directory.path());
      Process self{.number = number, .first = first, .store = &store};
      if (number < first) problem = self.Make();
      if (problem.empty()) problem = body(self);
      if (self.group != nullptr) self.group->Close();
    }
    return problem.empty() ? LeftBehind(before) : problem;
  });
  for (size_t number = 0; number < ends.size(); ++number) {
    if (std::find(killed.begin(), killed.end(), static_cast<int>(number)) != killed.end()) {
      EXPECT_TRUE(WIFSIGNALED(ends[number].wait_status))
          << "process " << number << ": " << ends[number].said;
    } else {
      EXPECT_EQ(ends[number].Problem(), "") << "process " << number;
    }
  }
}

std::vector<int> Present(int count) {
  std::vector<int> members;
  for (int rank = 0; rank < count; ++rank)
    members.push_back(rank);
  return members;
}

struct Growing {
  int first;
  int newcomers;
};

class AWorkingGroup : public testing::TestWithParam<Growing> {};

TEST_P(AWorkingGroup, TakesInNewProcesses) {
  const int first = GetParam().first;
  const int newcomers = GetParam().newcomers;
  std::vector<int> members = Present(first);
  members.insert(members.end(), static_cast<size_t>(newcomers), kNew);
  const int size = first + newcomers;
  OnProcesses(first, newcomers, {}, [&](Process& self) -> std::string {
    if (self.number >= first) {
      if (std::string problem = self.Join(); !problem.empty()) return problem;
      const int rank = self.group->rank();
      if (rank < first) return "a newcomer is rank " + std::to_string(rank);
      if (self.group->name() != "g") return "it is called " + self.group->name();
      if (self.group->epoch() != 2) return "epoch " + std::to_string(self.group->epoch());
      const std::string problem = CheckGrown(self, {size, rank, rank});
      return problem;
    }
    const int64_t start_ns = MonotonicNs();
    if (const absl::Status grown = self.Grow(members); !grown.ok()) return Text(grown);
    std::printf("%d and %d, rank %d: anew after %.1f ms\n", first, newcomers, self.number,
                static_cast<double>(MonotonicNs() - start_ns) * 1e-6);
    std::fflush(stdout);
    return CheckGrown(self, {size, self.number, self.number});
  });
}

INSTANTIATE_TEST_SUITE_P(Of, AWorkingGroup,
                         testing::Values(Growing{1, 1}, Growing{2, 1}, Growing{1, 3}, Growing{3, 2},
                                         Growing{7, 1}, Growing{2, 6}),
                         [](const auto& info) {
                           return std::to_string(info.param.first) + "And" +
                                  std::to_string(info.param.newcomers);
                         });

// The new process has the number of the one that it replaces, also where that had another place.
TEST(AKilledRank, IsReplaced) {
  for (const int victim : {0, 1, 2}) {
    OnProcesses(3, 1, {victim}, [&](Process& self) -> std::string {
      if (self.number == 3) {
        if (std::string problem = self.Join(victim); !problem.empty()) return problem;
        return CheckGrown(self, {3, victim, victim});
      }
      if (const absl::Status met = self.Meet(); !met.ok()) return Text(met);
      if (self.number == victim) raise(SIGKILL);
      if (const absl::Status lost = self.Meet(); ResultOf(lost) != WEFT_PEER_LOST) {
        return "not lost: " + Text(lost);
      }
      std::vector<int> members = Present(3);
      members[static_cast<size_t>(victim)] = kNew;
      if (const absl::Status grown = self.Grow(members); !grown.ok()) return Text(grown);
      return CheckGrown(self, {3, self.number, self.number});
    });
  }
}

TEST(ASmallerGroup, GrowsAgain) {
  OnProcesses(3, 1, {1}, [&](Process& self) -> std::string {
    if (self.number == 3) {
      if (std::string problem = self.Join(1); !problem.empty()) return problem;
      if (self.group->epoch() != 3) return "epoch " + std::to_string(self.group->epoch());
      return CheckGrown(self, {3, 2, 1});
    }
    if (const absl::Status met = self.Meet(); !met.ok()) return Text(met);
    if (self.number == 1) raise(SIGKILL);
    if (std::string problem = self.Shrink(); !problem.empty()) return problem;
    if (const absl::Status grown = self.Grow({0, 1, kNew}); !grown.ok()) return Text(grown);
    return CheckGrown(self, {3, self.number == 0 ? 0 : 1, self.number});
  });
}

// A wish for a number that a member has is not granted; nor is a number given twice.
TEST(WorldRanks, AreOfOneProcessEach) {
  OnProcesses(2, 2, {}, [&](Process& self) -> std::string {
    if (self.number >= 2) {
      if (std::string problem = self.Join(1); !problem.empty()) return problem;
    } else if (const absl::Status grown = self.Grow({kNew, 1, kNew}); !grown.ok()) {
      return Text(grown);
    } else if (self.number == 0) {
      return self.group == nullptr ? "" : "it is not listed";
    }
    const int rank = self.group->rank();
    return CheckGrown(self, {3, rank, rank == 0 ? 2 : rank == 1 ? 1 : 3});
  });
}

// The group does not end by it, and takes in who comes later.
TEST(WithoutNewcomers, TheGroupStays) {
  const SharedValue<std::atomic<int>> have_waited;
  OnProcesses(2, 1, {}, [&](Process& self) -> std::string {
    if (self.number == 2) {
      while (have_waited->load() < 2)
        usleep(1000);
      if (std::string problem = self.Join(); !problem.empty()) return problem;
      return CheckGrown(self, {3, 2, 2});
    }
    const absl::Status none = self.Grow({0, 1, kNew}, 1'000'000'000);
    std::string said = Text(none);
    have_waited->fetch_add(1);
    if (ResultOf(none) != WEFT_TIMEOUT) return "not late: " + said;
    if (said.find("0 of 1 processes that were to join had come") == std::string::npos) return said;
    if (const absl::Status met = self.Meet(); !met.ok()) return "it has ended: " + Text(met);
    if (const absl::Status grown = self.Grow({0, 1, kNew}); !grown.ok()) return Text(grown);
    return CheckGrown(self, {3, self.number, self.number});
  });
}

TEST(ANewcomer, ThatNobodyTakesInIsToldSo) {
  OnProcesses(1, 1, {}, [&](Process& self) -> std::string {
    if (self.number == 0) return "";
    const auto joined = JoinNodeGroup(*self.store, {.name = "g", .timeout_ns = 300'000'000}, kNew);
    if (ResultOf(joined.status()) != WEFT_TIMEOUT) return "not late: " + Text(joined.status());
    // It does not wait any longer: nobody is misled by it.
    NewcomerQueue queue(*self.store, "g");
    const auto waiting = queue.Waiting(64, MonotonicNs() + kReconfigureNs);
    if (!waiting.ok()) return Text(waiting.status());
    return waiting->empty() ? "" : "it still waits";
  });
}

// Of two that wait the first is taken, then the other; one that has ended meanwhile is passed over.
TEST(TheQueue, IsServedInOrder) {
  OnProcesses(1, 3, {1}, [&](Process& self) -> std::string {
    constexpr char kHasWaited[] = "test/has_waited";
    const auto others = [&](size_t count) {
      NewcomerQueue queue(*self.store, "g");
      while (queue.Waiting(64, MonotonicNs() + kReconfigureNs)->size() != count)
        usleep(1000);
    };
    if (self.number == 1) {
      std::thread killer([&] {
        others(1);
        self.store->Ask({.kind = StoreRequest::Kind::kSet, .key = kHasWaited, .value = "1"});
        kill(getpid(), SIGKILL);
      });
      std::string problem = self.Join();
      killer.join();
      return "joined: " + problem;
    }
    NewcomerQueue queue(*self.store, "g");
    if (self.number > 1) {
      // The first ticket is of the process that is killed. Who has drawn one does not wait with it yet, so only it can say that it has.
      const StoreReply has_waited =
          self.store->Ask({.key = kHasWaited, .deadline_ns = MonotonicNs() + kReconfigureNs});
      if (!has_waited.status.ok()) return Text(has_waited.status);
      const auto tickets = [&] {
        return self.store->Ask({.key = "weft/join/g/tickets", .deadline_ns = 1}).value;
      };
      while (tickets() != std::to_string(self.number - 1))
        usleep(1000);
      others(static_cast<size_t>(self.number - 2));
      if (std::string problem = self.Join(); !problem.empty()) return problem;
      if (self.number == 2) {
        if (self.group->size() != 2) return "size " + std::to_string(self.group->size());
        if (const absl::Status grown = self.Grow({0, 1, kNew}); !grown.ok()) return Text(grown);
      }
      return CheckGrown(self, {3, self.number - 1, self.number - 1});
    }
    others(2);
    for (const std::vector<int>& members : {std::vector<int>{0, kNew}, {0, 1, kNew}}) {
      if (const absl::Status grown = self.Grow(members); !grown.ok()) return Text(grown);
    }
    return CheckGrown(self, {3, 0, 0});
  });
}

TEST(ListsThatDiffer, AreToldBeforeAnybodyIsAdmitted) {
  OnProcesses(2, 1, {}, [&](Process& self) -> std::string {
    if (self.number == 2) {
      if (std::string problem = self.Join(); !problem.empty()) return problem;
      return CheckGrown(self, {3, 2, 2});
    }
    const absl::Status differ =
        self.Grow(self.number == 0 ? std::vector<int>{0, 1, kNew} : std::vector<int>{0, kNew, 1});
    if (ResultOf(differ) != WEFT_MISMATCH) return "not different: " + Text(differ);
    if (const absl::Status grown = self.Grow({0, 1, kNew}); !grown.ok()) return Text(grown);
    return CheckGrown(self, {3, self.number, self.number});
  });
}

bool Has(const ProcessGroup& group, int world_rank) {
  for (int rank = 0; rank < group.size(); ++rank) {
    if (group.world_rank(rank) == world_rank) return true;
  }
  return false;
}

// What a rank does that takes in newcomers, while processes are killed under it, until the group has `size` ranks and is `complete`.
std::string GrowTo(Process& self, int size,
                   const std::function<bool(const ProcessGroup& group)>& complete) {
  const int64_t end_ns = MonotonicNs() + kReconfigureNs / 2;
  while (MonotonicNs() < end_ns) {
    absl::Status status = self.Meet();
    if (!status.ok()) {
      if (std::string problem = GoOn(&self.group); !problem.empty()) return problem;
      continue;
    }
    if (self.group->size() == size) {
      if (complete(*self.group)) return "";
      continue;
    }
    std::vector<int> members = Present(self.group->size());
    members.resize(static_cast<size_t>(size), kNew);
    status = self.Grow(members, 5'000'000'000);
    const weft_result_t result = ResultOf(status);
    if (!status.ok() && result != WEFT_PEER_LOST && result != WEFT_REMOTE_ERROR &&
        result != WEFT_ABORTED && result != WEFT_TIMEOUT) {
      return Text(status);
    }
  }
  return "never complete";
}

// Ends this process after a moment, whatever it does.
std::thread KillLater(int64_t delay_ns) {
  return std::thread([delay_ns] {
    const timespec delay{0, delay_ns};
    nanosleep(&delay, nullptr);
    kill(getpid(), SIGKILL);
  });
}

// A newcomer is killed at some moment after it has come: before it is admitted, while all meet, while they agree, or later. The others
// end up with the one that comes after it.
TEST(WhileTheyMeet, ANewcomerMayBeKilled) {
  const uint64_t seed = TestSeed(31);
  SCOPED_TRACE(testing::Message() << "WEFT_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  constexpr int kSecond = 50;  // world rank
  const auto has_second = [](const ProcessGroup& group) {
    return Has(group, kSecond);
  };
  for (int round = 0; round < 24; ++round) {
    const int first = 1 + static_cast<int>(random() % 3);
    const int size = first + 1;
    const auto delay_ns =
        static_cast<int64_t>(random() % (round % 2 == 0 ? 3'000'000 : 15'000'000));
    OnProcesses(first, 2, {first}, [&](Process& self) -> std::string {
      if (self.number == first) {
        std::thread killer = KillLater(delay_ns);
        if (self.Join().empty()) (void)GrowTo(self, size, has_second);
        killer.join();
        return "it lives";
      }
      if (self.number > first) {
        const timespec moment{0, 20'000'000};  // after the first one
        nanosleep(&moment, nullptr);
        if (std::string problem = self.Join(kSecond); !problem.empty()) return problem;
      }
      if (std::string problem = GrowTo(self, size, has_second); !problem.empty()) return problem;
      const CollectiveCase test{.count = 30'000, .seed = 5};
      return RunCase(*self.group, test, {.in = Memory::kSymmetric});
    });
    if (HasFailure()) break;
  }
}

// A rank of the group is killed, the one that leads or another, while newcomers are taken in.
TEST(WhileTheyMeet, ARankMayBeKilled) {
  const uint64_t seed = TestSeed(37);
  SCOPED_TRACE(testing::Message() << "WEFT_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 24; ++round) {
    const int first = 2 + static_cast<int>(random() % 2);
    const int victim =
        round % 2 == 0 ? 0 : static_cast<int>(random() % static_cast<uint64_t>(first));
    const auto without_victim = [&](const ProcessGroup& group) {
      return !Has(group, victim);
    };
    const auto delay_ns = static_cast<int64_t>(random() % 8'000'000);
    OnProcesses(first, 2, {victim}, [&](Process& self) -> std::string {
      if (self.number == victim) {
        std::thread killer = KillLater(delay_ns);
        (void)GrowTo(self, first + 1, without_victim);
        killer.join();
        return "it lives";
      }
      if (self.number >= first) {
        if (std::string problem = self.Join(self.number); !problem.empty()) return problem;
      }
      std::string problem = GrowTo(self, first + 1, without_victim);
      if (!problem.empty()) return problem;
      const CollectiveCase test{.count = 30'000, .seed = 5};
      return RunCase(*self.group, test, {.in = Memory::kSymmetric});
    });
    if (HasFailure()) break;
  }
}

// Does something once, before or after the first request that is meant.
class ActingStore : public Store {
 public:
  using Meant = std::function<bool(const StoreRequest& request)>;

  ActingStore(Store& store, Meant before, Meant after, std::function<void()> act)
      : store_(store), before_(std::move(before)), after_(std::move(after)), act_(std::move(act)) {}

  StoreReply Ask(StoreRequest request) override {
    if (before_ && before_(request)) Act();
    const bool then = after_ && after_(request);
    StoreReply reply = store_.Ask(std::move(request));
    if (then) Act();
    return reply;
  }

 private:
  void Act() {
    if (!std::exchange(acted_, true)) act_();
  }

  Store& store_;
  const Meant before_;
  const Meant after_;
  const std::function<void()> act_;
  bool acted_ = false;
};

// The last thing that is written of an admission, by either side.
bool IsAdmitted(const StoreRequest& request) {
  return request.value == "over";
}

bool IsAdmission(const StoreRequest& request) {
  return request.kind == StoreRequest::Kind::kSet &&
         request.key.find("/admitted/") != std::string::npos;
}

bool IsCallingOff(const StoreRequest& request) {
  return request.kind == StoreRequest::Kind::kSet && request.key.ends_with("/off");
}

// It is waited for until the deadline. The group is as it was, and takes it in later.
TEST(AStoppedNewcomer, IsTakenInLater) {
  OnProcesses(2, 1, {}, [&](Process& self) -> std::string {
    if (self.number == 2) {
      ActingStore stopping(*self.store, nullptr, IsAdmitted, [] { raise(SIGSTOP); });
      self.store = &stopping;
      if (std::string problem = self.Join(); !problem.empty()) return problem;
      return CheckGrown(self, {3, 2, 2});
    }
    NewcomerQueue queue(*self.store, "g");
    int32_t pid = 0;
    while (self.number == 0 && pid == 0) {
      const auto waiting = queue.Waiting(1, MonotonicNs() + kReconfigureNs);
      if (waiting.ok() && !waiting->empty()) pid = waiting->front().member.pid;
    }
    const absl::Status late = self.Grow({0, 1, kNew}, 1'000'000'000);
    if (self.number == 0) kill(pid, SIGCONT);
    if (ResultOf(late) != WEFT_TIMEOUT) return "not late: " + Text(late);
    if (const absl::Status met = self.Meet(); !met.ok()) return "it has ended: " + Text(met);
    if (const absl::Status grown = self.Grow({0, 1, kNew}); !grown.ok()) return Text(grown);
    return CheckGrown(self, {3, self.number, self.number});
  });
}

// It is seen by the rank that has admitted it, although it has not come to the meeting.
TEST(ANewcomer, ThatDiesWhenItIsAdmittedIsNotWaitedFor) {
  OnProcesses(2, 1, {2}, [&](Process& self) -> std::string {
    if (self.number == 2) {
      ActingStore dying(*self.store, nullptr, IsAdmitted, [] { raise(SIGKILL); });
      self.store = &dying;
      return "joined: " + self.Join();
    }
    const absl::Status lost = self.Grow({0, 1, kNew});
    if (ResultOf(lost) != WEFT_PEER_LOST) return "not lost: " + Text(lost);
    return Text(self.Meet());
  });
}

// The only rank that was to have the group is gone, so nobody has it, and the other one goes on.
TEST(ARankThatIsNotListed, GoesOnIfNobodyHasTheGroup) {
  OnProcesses(2, 1, {0}, [&](Process& self) -> std::string {
    if (self.number == 2) {
      if (std::string problem = self.Join(); !problem.empty()) return problem;
      return CheckGrown(self, {2, 1, 2});
    }
    if (self.number == 0) {
      ActingStore dying(*self.store, nullptr, IsAdmission, [] { raise(SIGKILL); });
      self.store = &dying;
      return "it lives: " + Text(self.Grow({0, kNew}));
    }
    const absl::Status lost = self.Grow({0, kNew});
    if (ResultOf(lost) != WEFT_PEER_LOST) return "not lost: " + Text(lost);
    if (const absl::Status grown = self.Grow({1, kNew}); !grown.ok()) return Text(grown);
    return CheckGrown(self, {2, 0, 1});
  });
}

// The rank that has admitted a newcomer is stopped until the others have given up, and they die before they have told it.
TEST(ANewcomer, IsToldByWhoAdmittedItIfNobodyElseCan) {
  OnProcesses(2, 1, {1}, [&](Process& self) -> std::string {
    if (self.number == 2) {
      if (std::string problem = self.Join(2); !problem.empty()) return problem;
      return CheckGrown(self, {2, 1, 2});
    }
    const auto ask = [&](StoreRequest request) {
      request.key = "pid";
      request.deadline_ns = MonotonicNs() + kReconfigureNs;
      return self.store->Ask(std::move(request)).value;
    };
    if (self.number == 1) {
      const int leader = std::stoi(ask({.kind = StoreRequest::Kind::kWait}));
      ActingStore dying(*self.store, IsCallingOff, nullptr, [leader] {
        kill(leader, SIGCONT);
        raise(SIGKILL);
      });
      self.store = &dying;
      return "it lives: " + Text(self.Grow({0, kNew}, 500'000'000));
    }
    (void)ask({.kind = StoreRequest::Kind::kSet, .value = std::to_string(getpid())});
    Store& store = *self.store;
    ActingStore stopping(store, nullptr, IsAdmitted, [] { raise(SIGSTOP); });
    self.store = &stopping;
    const absl::Status late = self.Grow({0, kNew});
    if (late.ok()) return "it has grown";
    self.store = &store;
    if (std::string problem = self.Shrink(); !problem.empty()) return problem;
    if (const absl::Status grown = self.Grow({0, kNew}); !grown.ok()) return Text(grown);
    return CheckGrown(self, {2, 0, 0});
  });
}

// Fails the requests that are meant.
class FailingStore : public Store {
 public:
  FailingStore(Store& store, std::string key, weft_result_t result)
      : store_(store), key_(std::move(key)), result_(result) {}

  StoreReply Ask(StoreRequest request) override {
    const bool meant =
        request.kind == StoreRequest::Kind::kSet && request.key.find(key_) != std::string::npos;
    if (meant) return {.status = MakeError(result_, "the store is full")};
    return store_.Ask(std::move(request));
  }

 private:
  Store& store_;
  const std::string key_;
  const weft_result_t result_;
};

// Whoever has met with something says it, and is named by the others; who only gave up because of it is not. Nobody waits for the
// deadline, and the group works.
TEST(WhatOneHasMetWith, IsNamedByAll) {
  for (const int failing : {0, 1, 2}) {
    SCOPED_TRACE(failing);
    OnProcesses(2, 1, {}, [&](Process& self) -> std::string {
      Store& good = *self.store;
      FailingStore full(good, "/line/", WEFT_OUT_OF_MEMORY);
      const int64_t start_ns = MonotonicNs();
      if (self.number == failing) self.store = &full;
      if (self.number == 2) {
        std::string problem = self.Join();
        if (failing == 2 && problem.find("the store is full") == std::string::npos) return problem;
        self.store = &good;
        if (failing == 2) problem = self.Join();
        return problem.empty() ? CheckGrown(self, {3, 2, 2}) : problem;
      }
      const absl::Status failed = self.Grow({0, 1, kNew});
      std::string said = Text(failed);
      const bool own = self.number == failing;
      if (ResultOf(failed) != (own ? WEFT_OUT_OF_MEMORY : WEFT_REMOTE_ERROR)) return said;
      if (!own && FieldsOf(failed).rank != (failing == 2 ? -1 : failing)) return said;
      if (MonotonicNs() - start_ns > kReconfigureNs / 2) return "late: " + said;
      if (const absl::Status met = self.Meet(); !met.ok()) return "it has ended: " + Text(met);
      self.store = &good;
      if (const absl::Status grown = self.Grow({0, 1, kNew}); !grown.ok()) return Text(grown);
      return CheckGrown(self, {3, self.number, self.number});
    });
  }
}

// A rank that is not listed has nothing to do while the others meet, however long; the group is as it was if that fails.
TEST(ARankThatIsNotListed, WaitsForTheMeeting) {
  OnProcesses(2, 1, {2}, [&](Process& self) -> std::string {
    if (self.number == 2) {
      ActingStore dying(
          *self.store,
          [](const StoreRequest& request) {
            return request.kind == StoreRequest::Kind::kSet &&
                   request.key.find("/line/") != std::string::npos;
          },
          nullptr,
          [] {
            const timespec moment{1, 500'000'000};
            nanosleep(&moment, nullptr);
            raise(SIGKILL);
          });
      self.store = &dying;
      return "joined: " + self.Join();
    }
    const absl::Status lost = self.Grow({0, kNew});
    const weft_result_t wanted = self.number == 0 ? WEFT_PEER_LOST : WEFT_REMOTE_ERROR;
    if (ResultOf(lost) != wanted) return "another: " + Text(lost);
    if (FieldsOf(lost).rank != (self.number == 0 ? -1 : 0)) return "another rank: " + Text(lost);
    return self.Meet().ok() ? "" : "it has ended: " + Text(self.group->error());
  });
}

// The same processes a thousand times: one goes, and comes again.
TEST(Rounds, OfShrinkingAndGrowingLeaveNothingBehind) {
#ifdef WEFT_SANITIZE
  constexpr int kSome = 50;
#else
  constexpr int kSome = 200;
#endif
  const int rounds = AllCasesWanted() ? 1000 : kSome;
  OnProcesses(3, 0, {}, [&](Process& self) -> std::string {
    Holdings early;
    for (int round = 0; round < rounds; ++round) {
      const bool goes = self.group->rank() == 2;
      const absl::Status shrunk = self.Grow({1, 0});
      if (!shrunk.ok()) return Text(shrunk);
      std::string problem;
      if (goes) {
        problem = self.Join(self.number);
      } else if (const absl::Status grown = self.Grow({1, kNew, 0}); !grown.ok()) {
        problem = Text(grown);
      }
      if (!problem.empty()) return problem;
      if (round % 50 == 0) {
        const CollectiveCase test{.count = 20'000, .seed = 5};
        if (problem = RunCase(*self.group, test, {}); !problem.empty()) return problem;
      }
      if (round == 2) early = Holdings::Now();
    }
    const std::string more = Holdings::Now().Since(early);
    return more.empty() ? "" : "it grows: " + more;
  });
}

}  // namespace
}  // namespace weft::test::growth_test
