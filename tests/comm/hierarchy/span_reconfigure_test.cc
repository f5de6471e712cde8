// Groups over fake nodes of this machine, as processes, that are made anew after some of them are gone, or of some of them in another
// order; and what ranks are told that cannot have it.
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"
#include "comm/hierarchy/make_group.h"
#include "tests/comm/hierarchy/fake_node_ranks.h"
#include "tests/comm/node/collective_case.h"
#include "tests/support/shared_value.h"

namespace weft::test::span_reconfigure_test {
namespace {

constexpr int kRanksMax = 8;

struct Common {
  std::atomic<int64_t> known_ns{0};  // when the last rank knew of the loss
  std::atomic<int64_t> anew_ns{0};   // when the last one had the new group
  std::atomic<int> done{0};
  std::atomic<int> met{0};
  std::atomic<int> pids[kRanksMax] = {};
};

void Raise(std::atomic<int64_t>* latest, int64_t now_ns) {
  int64_t before = latest->load();
  while (before < now_ns && !latest->compare_exchange_weak(before, now_ns)) {
  }
}

bool Await(int64_t within_ns, const std::function<bool()>& done) {
  const int64_t until_ns = MonotonicNs() + within_ns;
  while (!done()) {
    if (MonotonicNs() > until_ns) return false;
    usleep(500);
  }
  return true;
}

std::string TextOf(const absl::Status& status) {
  return StrCat(static_cast<int>(ResultOf(status)), " ", std::string(status.message()));
}

using Body = std::function<std::string(std::shared_ptr<ProcessGroup> group, Common& common)>;

struct Job {
  int size;
  const char* nodes;
  std::vector<int> killed = {};
  int64_t limit_ns = 1 * kSecondNs;
  int64_t timeout_ns = 60 * kSecondNs;
};

// Each makes the group, runs the body, and must have nothing left of it; those that are killed must end by a signal.
void RunJob(const Job& job, const Body& body) {
  SCOPED_TRACE(StrCat(job.size, " ranks on nodes ", job.nodes));
  const TemporaryDirectory directory;
  const SharedValue<Common> common;
  const auto ends = RunForkedRanks(job.size, 120, [&](int rank) -> std::string {
    const Holdings before = Holdings::Now();
    std::string problem;
    {
      DirectoryStore store(directory.path());
      auto group =
          MakeGroup(&store, rank, job.size,
                    {.name = "s", .timeout_ns = job.timeout_ns, .init_timeout_ns = 60 * kSecondNs},
                    {.fake_nodes = job.nodes, .span = {.limit_ns = job.limit_ns}});
      if (!group.ok()) return StrCat("making: ", TextOf(group.status()));
      common->pids[rank].store(getpid());
      const absl::Status met = (*group)->Run({.kind = OpKind::kBarrier});
      if (!met.ok()) return StrCat("meeting: ", TextOf(met));
      // Nobody is killed whom another one still needs.
      common->met.fetch_add(1);
      if (!Await(20 * kSecondNs, [&] { return common->met.load() >= job.size; }))
        return "not all have met";
      problem = body(*std::move(group), *common.operator->());
    }
    return problem.empty() ? LeftBehind(before) : problem;
  });
  for (size_t rank = 0; rank < ends.size(); ++rank) {
    if (std::count(job.killed.begin(), job.killed.end(), static_cast<int>(rank)) != 0) {
      EXPECT_TRUE(WIFSIGNALED(ends[rank].wait_status));
    } else {
      EXPECT_EQ(ends[rank].Problem(), "") << "rank " << rank;
    }
  }
}

// Collectives and messages have the bits of a reference.
std::string ExpectWorks(ProcessGroup& group) {
  for (const size_t count : {size_t{3}, size_t{5'000}, size_t{200'001}}) {
    for (const OpKind kind : {OpKind::kAllReduce, OpKind::kAllGather, OpKind::kBroadcast}) {
      const CollectiveCase of{.kind = kind,
                              .dtype = WEFT_FLOAT32,
                              .op = WEFT_SUM,
                              .root = group.size() - 1,
                              .count = count,
                              .seed = 90 + count};
      std::string problem = RunCase(group, of, LocalChoice::FromSeed(of.seed, group.rank()));
      if (!problem.empty()) return problem;
    }
  }
  int32_t in = group.rank();
  int32_t out = -1;
  const int next = (group.rank() + 1) % group.size();
  const int previous = (group.rank() + group.size() - 1) % group.size();
  const absl::Status passed =
      group.RunPair({.is_send = true, .in = &in, .count = 1, .dtype = WEFT_INT32, .peer = next},
                    {.out = &out, .count = 1, .dtype = WEFT_INT32, .peer = previous});
  if (!passed.ok()) return TextOf(passed);
  return out == previous ? "" : "a message of another rank";
}

// "" if it is that of these ranks of the first group, in this order, and works, with what is split from it.
std::string ExpectGroup(const absl::StatusOr<std::shared_ptr<ProcessGroup>>& made, int own,
                        const std::vector<int>& ranks, uint32_t epoch) {
  if (!made.ok()) return TextOf(made.status());
  const auto place = std::find(ranks.begin(), ranks.end(), own);
  if (place == ranks.end()) return *made == nullptr ? "" : "a group for whom it is not";
  if (*made == nullptr) return "no group";
  ProcessGroup& group = **made;
  if (group.size() != static_cast<int>(ranks.size())) return StrCat("of ", group.size(), " ranks");
  if (group.rank() != place - ranks.begin()) return StrCat("rank ", group.rank());
  if (group.epoch() != epoch) return StrCat("epoch ", group.epoch());
  for (int rank = 0; rank < group.size(); ++rank) {
    if (group.world_rank(rank) != ranks[static_cast<size_t>(rank)])
      return StrCat("rank ", rank, " is world rank ", group.world_rank(rank));
  }
  std::string problem = ExpectWorks(group);
  if (!problem.empty() || group.size() == 1) return problem;
  auto part = group.Split(group.rank() % 2, 0, {.name = "p"});
  if (!part.ok()) return StrCat("a part: ", TextOf(part.status()));
  problem = ExpectWorks(**part);
  (*part)->Close();
  return problem;
}

// Until it has ended.
absl::Status Exhaust(ProcessGroup& group) {
  absl::Status ended;
  float value = 1;
  const int64_t until_ns = MonotonicNs() + 30 * kSecondNs;
  while (ended.ok() && MonotonicNs() < until_ns) {
    value = 1;
    ended = group.Run({.kind = OpKind::kAllReduce,
                       .dtype = WEFT_FLOAT32,
                       .count = 1,
                       .in = &value,
                       .out = &value});
  }
  return ended;
}

std::vector<int> Without(int size, const std::vector<int>& gone) {
  std::vector<int> ranks;
  for (int rank = 0; rank < size; ++rank) {
    if (std::count(gone.begin(), gone.end(), rank) == 0) ranks.push_back(rank);
  }
  return ranks;
}

TEST(SpanReconfigure, SurvivorsOfAKilledRankGoOn) {
  for (const Job& job : {Job{4, "2", {3}}, Job{4, "2", {0}}, Job{4, "0,1,0,1", {2}},
                         Job{3, "0,0,1", {1}}, Job{5, "3", {4}}, Job{6, "3", {1}}}) {
    SCOPED_TRACE(StrCat("rank ", job.killed[0], " is killed"));
    RunJob(job, [&](std::shared_ptr<ProcessGroup> group, Common& common) -> std::string {
      const int own = group->rank();
      if (own == job.killed[0]) (void)kill(getpid(), SIGKILL);
      const absl::Status ended = Exhaust(*group);
      // Nobody may be left on its node who could say how it has ended.
      if (ResultOf(ended) != WEFT_PEER_LOST && ResultOf(ended) != WEFT_UNREACHABLE)
        return TextOf(ended);
      Raise(&common.known_ns, MonotonicNs());
      const auto next = group->Reconfigure({}, {.name = ""});
      Raise(&common.anew_ns, MonotonicNs());
      std::string problem = ExpectGroup(next, own, Without(job.size, job.killed), 2);
      if (problem.empty() && (*next)->name() != "s") problem = "another name";
      if (problem.empty() && ResultOf(group->Run({.kind = OpKind::kBarrier})) != WEFT_ABORTED)
        problem = "the old group works";
      if (next.ok()) (*next)->Close();
      group->Close();
      // All are done before any looks: the last of both.
      common.done.fetch_add(1);
      if (!Await(20 * kSecondNs, [&] { return common.done.load() == job.size - 1; }))
        return problem.empty() ? "not all are done" : problem;
      const int64_t took_ns = common.anew_ns.load() - common.known_ns.load();
      if (own == (job.killed[0] == 0 ? 1 : 0)) {
        std::printf("made anew after rank %d of %d was lost: %.1f ms\n", job.killed[0], job.size,
                    static_cast<double>(took_ns) / 1e6);
      }
      if (took_ns > 5 * kSecondNs) return StrCat("it took ", took_ns / 1'000'000, " ms");
      return problem;
    });
  }
}

TEST(SpanReconfigure, OneAfterTheOtherIsKilledAndTheRestGoesOn) {
  RunJob({6, "0,0,1,1,2,2", {5, 3, 2}},
         [&](std::shared_ptr<ProcessGroup> group, Common& common) -> std::string {
           const int own = group->rank();
           std::vector<int> gone;
           int done = 0;
           for (const int victim : {5, 3, 2}) {
             if (own == victim) (void)kill(getpid(), SIGKILL);
             gone.push_back(victim);
             const absl::Status ended = Exhaust(*group);
             if (ended.ok()) return "it goes on";
             auto next = group->Reconfigure({}, {.name = ""});
             const std::string problem =
                 ExpectGroup(next, own, Without(6, gone), static_cast<uint32_t>(gone.size()) + 1);
             if (!problem.empty()) return StrCat("without ", victim, ": ", problem);
             group->Close();
             group = *std::move(next);
             done += group->size();
             common.done.fetch_add(1);
             if (!Await(20 * kSecondNs, [&] { return common.done.load() >= done; }))
               return "not all are done";
           }
           group->Close();
           return "";
         });
}

TEST(SpanReconfigure, ALostNodeIsLeftBehind) {
  for (const Job& job : {Job{5, "0,0,1,1,2", {2, 3}}, Job{4, "2", {2, 3}}}) {
    RunJob(job, [&](std::shared_ptr<ProcessGroup> group, Common& common) -> std::string {
      const int own = group->rank();
      if (own == 2 || own == 3) {
        common.done.fetch_add(1);
        while (true)
          pause();
      }
      if (own == 0) {
        if (!Await(10 * kSecondNs, [&] { return common.done.load() == 2; }))
          return "not all are there";
        // Both at once, so that neither says of the other one.
        (void)kill(common.pids[2].load(), SIGSTOP);
        (void)kill(common.pids[3].load(), SIGSTOP);
        usleep(50'000);
        (void)kill(common.pids[2].load(), SIGKILL);
        (void)kill(common.pids[3].load(), SIGKILL);
      }
      const absl::Status ended = Exhaust(*group);
      if (ended.ok()) return "it goes on";
      auto next = group->Reconfigure({}, {.name = ""});
      std::string problem = ExpectGroup(next, own, Without(job.size, job.killed), 2);
      if (next.ok()) (*next)->Close();
      group->Close();
      return problem;
    });
  }
}

// Nobody is gone: some are left out, and the others have other numbers.
TEST(SpanReconfigure, AGroupThatWorksIsCutDownAndNumberedAnew) {
  for (const std::vector<int>& members :
       {std::vector<int>{3, 1, 0}, {2, 0}, {0, 1}, {3, 2, 1, 0}, {1}, {}}) {
    SCOPED_TRACE(StrCat(members.size(), " members"));
    RunJob({4, "2"}, [&](std::shared_ptr<ProcessGroup> group, Common& common) -> std::string {
      const int own = group->rank();
      auto next = group->Reconfigure(members, {.name = "t"});
      std::string problem =
          ExpectGroup(next, own, members.empty() ? std::vector<int>{0, 1, 2, 3} : members, 2);
      const bool has = next.ok() && *next != nullptr;
      if (problem.empty() && has && (*next)->name() != "t") problem = "another name";
      // Those that were left out have gone: that is no loss, and the others may do it again.
      common.done.fetch_add(1);
      if (!Await(20 * kSecondNs, [&] { return common.done.load() == 4; }))
        return "not all are done";
      if (!has) {
        group->Close();
        return problem;
      }
      group->Close();
      if (problem.empty()) problem = ExpectWorks(**next);
      auto again = (*next)->Reconfigure({}, {.name = ""});
      if (problem.empty() && !again.ok()) problem = StrCat("again: ", TextOf(again.status()));
      if (problem.empty()) problem = ExpectWorks(**again);
      if (again.ok()) (*again)->Close();
      (*next)->Close();
      return problem;
    });
  }
}

TEST(SpanReconfigure, OtherListsAreAMismatchAndMayBeTriedAgain) {
  RunJob({4, "2"}, [&](std::shared_ptr<ProcessGroup> group, Common& /*common*/) -> std::string {
    const int own = group->rank();
    auto next = group->Reconfigure(own == 2 ? std::vector<int>{0, 2} : std::vector<int>{2, 0},
                                   {.name = ""});
    if (ResultOf(next.status()) != WEFT_MISMATCH) return TextOf(next.status());
    if (FieldsOf(next.status()).world_rank != 2) return "it names another rank";
    if (ResultOf(group->Run({.kind = OpKind::kBarrier})) != WEFT_ABORTED) return "it goes on";
    next = group->Reconfigure({2, 0}, {.name = ""});
    std::string problem = ExpectGroup(next, own, {2, 0}, 3);
    if (next.ok() && *next != nullptr) (*next)->Close();
    group->Close();
    return problem;
  });
}

TEST(SpanReconfigure, WhoIsListedAndGoneIsNamed) {
  RunJob({4, "2", {3}},
         [&](std::shared_ptr<ProcessGroup> group, Common& /*common*/) -> std::string {
           const int own = group->rank();
           if (own == 3) (void)kill(getpid(), SIGKILL);
           if (Exhaust(*group).ok()) return "it goes on";
           auto next = group->Reconfigure({3, 0}, {.name = ""});
           const bool named =
               ResultOf(next.status()) == WEFT_PEER_LOST && FieldsOf(next.status()).world_rank == 3;
           if (!named) return TextOf(next.status());
           next = group->Reconfigure({2, 1, 0}, {.name = ""});
           std::string problem = ExpectGroup(next, own, {2, 1, 0}, 3);
           if (next.ok()) (*next)->Close();
           group->Close();
           return problem;
         });
}

// Whoever lives is waited for until the deadline, and named.
TEST(SpanReconfigure, WhoDoesNotCallIsNamedAtTheDeadline) {
  RunJob({4, "2"}, [&](std::shared_ptr<ProcessGroup> group, Common& common) -> std::string {
    std::string problem;
    if (group->rank() == 2) {
      if (!Await(20 * kSecondNs, [&] { return common.done.load() == 3; })) problem = "they wait";
    } else {
      const auto next = group->Reconfigure({}, {.name = "", .init_timeout_ns = kSecondNs});
      const bool named =
          ResultOf(next.status()) == WEFT_TIMEOUT && FieldsOf(next.status()).rank == 2;
      if (!named) problem = TextOf(next.status());
      common.done.fetch_add(1);
    }
    group->Close();
    return problem;
  });
}

TEST(SpanReconfigure, WhatIsNotThereIsRefused) {
  RunJob({4, "2"}, [&](std::shared_ptr<ProcessGroup> group, Common& /*common*/) -> std::string {
    auto part = group->Split(group->rank() % 2, 0, {.name = "p"});
    if (!part.ok()) return TextOf(part.status());
    const auto of_part = (*part)->Reconfigure({}, {.name = ""});
    const auto joined = group->Reconfigure({0, 1, 2, 3, -1}, {.name = ""});
    const absl::Status works = (*part)->Run({.kind = OpKind::kBarrier});
    (*part)->Close();
    group->Close();
    if (ResultOf(of_part.status()) != WEFT_UNSUPPORTED) return TextOf(of_part.status());
    if (ResultOf(joined.status()) != WEFT_UNSUPPORTED) return TextOf(joined.status());
    return works.ok() ? "" : TextOf(works);
  });
}

// One dies while the others are at it.
TEST(SpanReconfigure, ADeathMeanwhileIsCounted) {
  for (int round = 0; round < 6; ++round) {
    SCOPED_TRACE(round);
    RunJob({6, "3", {5, 1}},
           [&](std::shared_ptr<ProcessGroup> group, Common& /*common*/) -> std::string {
             const int own = group->rank();
             if (own == 5) (void)kill(getpid(), SIGKILL);
             if (Exhaust(*group).ok()) return "it goes on";
             if (own == 1) {
               // At another moment each time: while it asks, when it is agreed, when the group is made.
               (void)signal(SIGALRM, SIG_DFL);
               ualarm(static_cast<useconds_t>(1 + round * 700), 0);
             }
             auto next = group->Reconfigure({}, {.name = ""});
             while (next.ok() && (*next)->size() == 5) {
               // It died when all had agreed: that is a failure of the next group.
               if (Exhaust(**next).ok()) return "it goes on though another one is gone";
               auto again = (*next)->Reconfigure({}, {.name = ""});
               (*next)->Close();
               next = std::move(again);
             }
             if (!next.ok()) return TextOf(next.status());
             std::string problem = ExpectGroup(next, own, {0, 2, 3, 4}, (*next)->epoch());
             (*next)->Close();
             group->Close();
             return problem;
           });
  }
}

}  // namespace
}  // namespace weft::test::span_reconfigure_test
