// Groups of a mesh end together: whatever ends one of them is told to the ranks that wait in
// others, also in those of which no rank has anything to do with the failed one. On processes, over
// fake nodes, and in a mesh that was made on a group of another mesh.
//
// TEST_CASES=all (nightly) fails 200 times; the times of all are printed.
#include <atomic>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>

#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"
#include "comm/group/progress.h"
#include "comm/hierarchy/make_group.h"
#include "shard/layout/mesh.h"
#include "tests/comm/node/directory_store.h"
#include "tests/support/case_sample.h"
#include "tests/support/forked_ranks.h"
#include "tests/support/kill_within.h"
#include "tests/support/leak_check.h"
#include "tests/support/shared_value.h"
#include "tests/support/survivor_times.h"

namespace weft::mesh_failure_test {
namespace {

constexpr int kRanks = 8;
constexpr int kFailures = 200;
constexpr int64_t kTimeoutNs = 60'000'000'000;
constexpr double kHardMs = 1000;  // within which all must know
constexpr double kWatchdogS = 90;

// The kinds of groups of a mesh pp 2, dp 2, tp 2.
const std::vector<std::string> kKinds[] = {
    {"pp"}, {"dp"}, {"tp"}, {"pp", "dp"}, {"pp", "tp"}, {"dp", "tp"}, {"pp", "dp", "tp"}};
constexpr size_t kKindCount = std::size(kKinds);

// How a rank fails: its process is killed, or it aborts one of its groups.
enum class Way { kKill, kAbort };

// What the others do meanwhile: each waits in a group for a message that nobody sends, or all use
// one group after the other.
enum class Others { kWait, kTrain };

struct Trial {
  Way way = Way::kKill;
  Others others = Others::kWait;
  int culprit = 0;
  size_t failing = 0;    // the kind of the group that is aborted
  size_t shift = 0;      // rank r waits in the kind r + shift
  int64_t delay_us = 0;  // from the moment on when all have their groups
};

struct Exchange {
  std::atomic<int64_t> failed_ns{0};
  std::atomic<int64_t> knew_ns[kRanks]{};  // in the group where it waited
  std::atomic<int64_t> all_knew_ns[kRanks]{};
};

Trial RandomTrial(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](uint64_t end) {
    return random() % end;
  };
  Trial trial;
  trial.way = below(2) == 0 ? Way::kKill : Way::kAbort;
  trial.others = below(2) == 0 ? Others::kWait : Others::kTrain;
  trial.culprit = static_cast<int>(below(kRanks));
  trial.failing = below(kKindCount);
  trial.shift = below(kKindCount);
  trial.delay_us = static_cast<int64_t>(below(30'000));
  return trial;
}

using Groups = std::vector<std::shared_ptr<ProcessGroup>>;

absl::StatusOr<Groups> GroupsOf(const Mesh& mesh) {
  Groups groups;
  for (const std::vector<std::string>& names : kKinds) {
    WEFT_ASSIGN_OR_RETURN(groups.emplace_back(), mesh.Group(names));
  }
  return groups;
}

void Fail(const Trial& trial, const Groups& groups, Exchange* exchange) {
  poll(nullptr, 0, static_cast<int>(trial.delay_us / 1000));
  exchange->failed_ns.store(MonotonicNs());
  if (trial.way == Way::kKill) raise(SIGKILL);
  groups[trial.failing]->Abort("sample 9 is torn");
}

// Why this rank's wait has ended.
absl::Status AwaitFailure(const Trial& trial, int rank, const Groups& groups) {
  if (trial.others == Others::kWait) {
    ProcessGroup& group = *groups[(static_cast<size_t>(rank) + trial.shift) % kKindCount];
    char unused = 0;
    return group.Run(
        Message{.out = &unused, .count = 1, .peer = (group.rank() + 1) % group.size()});
  }
  std::vector<float> values(1000);
  for (const int64_t begun_ns = MonotonicNs(); MonotonicNs() - begun_ns < kTimeoutNs;) {
    for (const std::shared_ptr<ProcessGroup>& group : groups) {
      WEFT_RETURN_IF_ERROR(group->Run({.kind = OpKind::kAllReduce,
                                       .dtype = WEFT_FLOAT32,
                                       .op = WEFT_SUM,
                                       .count = values.size(),
                                       .in = values.data(),
                                       .out = values.data()}));
    }
  }
  return absl::OkStatus();
}

// "" if that is the failure.
std::string NotTheFailure(const Trial& trial, const absl::Status& status) {
  const ErrorFields fields = FieldsOf(status);
  const std::string text(status.message());
  const bool named = fields.world_rank == trial.culprit;
  const bool right = trial.way == Way::kKill
                         ? ResultOf(status) == WEFT_PEER_LOST && named && fields.signal == SIGKILL
                         : ResultOf(status) == WEFT_ABORTED && named &&
                               text.find("sample 9 is torn") != std::string::npos;
  return right ? ""
               : StrCat(static_cast<int>(ResultOf(status)), " of ", fields.world_rank, ": ", text);
}

// The same of all groups of this rank, once each of them has ended.
std::string NotTheFailureOfAll(const Trial& trial, const Groups& groups) {
  for (size_t kind = 0; kind < groups.size(); ++kind) {
    absl::Status ended;
    const int64_t begun_ns = MonotonicNs();
    while ((ended = groups[kind]->error()).ok() && MonotonicNs() - begun_ns < kTimeoutNs) {
      LookAfterGroups();
      poll(nullptr, 0, 1);
    }
    const std::string problem = NotTheFailure(trial, ended);
    if (!problem.empty()) return StrCat("group ", groups[kind]->name(), ": ", problem);
  }
  return "";
}

std::string RunRank(const Trial& trial, std::shared_ptr<ProcessGroup> world, Exchange* exchange) {
  const auto rank = static_cast<size_t>(world->rank());
  const auto mesh = Mesh::Create(world, {{"pp", 2}, {"dp", 2}, {"tp", 2}});
  if (!mesh.ok()) return std::string(mesh.status().message());
  const absl::StatusOr<Groups> groups = GroupsOf(**mesh);
  if (!groups.ok()) return std::string(groups.status().message());
  const absl::Status met = world->Run({.kind = OpKind::kBarrier});
  if (!met.ok()) return std::string(met.message());
  const bool fails = static_cast<int>(rank) == trial.culprit;
  if (fails && (trial.others == Others::kWait || trial.way == Way::kAbort)) {
    Fail(trial, *groups, exchange);
  } else {
    if (fails) test::KillWithin(&exchange->failed_ns, trial.delay_us);
    const absl::Status status = AwaitFailure(trial, static_cast<int>(rank), *groups);
    exchange->knew_ns[rank].store(MonotonicNs());
    const std::string problem = NotTheFailure(trial, status);
    if (!problem.empty()) return StrCat("waiting: ", problem);
  }
  const std::string problem = NotTheFailureOfAll(trial, *groups);
  exchange->all_knew_ns[rank].store(MonotonicNs());
  return problem;
}

std::string TextOf(const Trial& trial) {
  return StrCat("rank ", trial.culprit,
                trial.way == Way::kKill ? " is killed" : StrCat(" aborts kind ", trial.failing),
                trial.others == Others::kWait ? StrCat(", others wait, shift ", trial.shift)
                                              : std::string(", others train"),
                ", after ", trial.delay_us, " us");
}

// On processes; `nodes`: which fake node each is on, nullptr: there is one.
void RunTrial(const Trial& trial, const char* nodes, test::SurvivorTimes* times) {
  SCOPED_TRACE(TextOf(trial));
  const test::TemporaryDirectory directory;
  const test::SharedValue<Exchange> exchange;
  const auto ends = test::RunForkedRanks(kRanks, kWatchdogS, [&](int rank) -> std::string {
    test::DirectoryStore store(directory.path());
    const auto group = MakeGroup(&store, rank, kRanks, {.name = "m", .timeout_ns = kTimeoutNs},
                                 {.fake_nodes = nodes == nullptr ? "" : nodes});
    if (!group.ok()) return std::string(group.status().message());
    const std::string problem = RunRank(trial, *group, exchange.operator->());
    (*group)->Close();
    return problem;
  });
  for (int rank = 0; rank < kRanks; ++rank) {
    const test::RankEnd& end = ends[static_cast<size_t>(rank)];
    if (rank == trial.culprit) {
      EXPECT_TRUE(trial.way == Way::kAbort || WIFSIGNALED(end.wait_status)) << end.Problem();
      continue;
    }
    EXPECT_EQ(end.Problem(), "") << "rank " << rank;
    const int64_t failed_ns = exchange->failed_ns.load();
    EXPECT_LT(times->Add(failed_ns, exchange->knew_ns[rank].load()), kHardMs) << "rank " << rank;
    EXPECT_LT(times->Add(failed_ns, exchange->all_knew_ns[rank].load()), kHardMs)
        << "rank " << rank << ", of all its groups";
  }
}

// Ranks wait in all kinds of groups at once, by turns each in another one.
TEST(MeshFailure, OfEachKindOfGroupIsToldInEachOther) {
  test::SurvivorTimes times;
  for (size_t kind = 0; kind < kKindCount && !HasFailure(); ++kind) {
    RunTrial({.way = Way::kAbort,
              .culprit = static_cast<int>(kind),
              .failing = kind,
              .shift = kind,
              .delay_us = 20'000},
             nullptr, &times);
    RunTrial({.way = Way::kKill,
              .culprit = static_cast<int>(kind),
              .shift = kind + 3,
              .delay_us = 20'000},
             nullptr, &times);
  }
  times.Print();
}

TEST(MeshFailure, AtAnyMomentIsToldInAllGroupsSoon) {
  const uint64_t first_seed = test::TestSeed(std::random_device()());
  const test::CaseSample sample({.every = 3, .sanitized = 37}, first_seed);
  test::SurvivorTimes times;
  for (int failure = 0; failure < kFailures && !HasFailure(); ++failure) {
    if (!sample.Takes(static_cast<size_t>(failure))) continue;
    SCOPED_TRACE(StrCat("WEFT_TEST_SEED=", first_seed, ", failure ", failure));
    RunTrial(RandomTrial(first_seed + static_cast<uint64_t>(failure)), nullptr, &times);
  }
  sample.Print("random failures", kFailures);
  times.Print();
}

// tp is within a node, pp or all else across them.
TEST(MeshFailure, OverNodesIsToldInAllGroups) {
  test::SurvivorTimes times;
  for (const char* const nodes : {"0,0,0,0,1,1,1,1", "0,0,1,1,0,0,1,1"}) {
    SCOPED_TRACE(nodes);
    for (const size_t failing : {size_t{2}, size_t{0}, size_t{5}}) {
      RunTrial({.way = Way::kAbort,
                .culprit = 6,
                .failing = failing,
                .shift = failing,
                .delay_us = 20'000},
               nodes, &times);
    }
    RunTrial({.way = Way::kKill, .culprit = 3, .shift = 1, .delay_us = 20'000}, nodes, &times);
  }
  times.Print();
}

// Rank 0 of the inner mesh's last axis aborts that, and pp waits in the outer mesh.
TEST(MeshFailure, OfAMeshOnAMeshsGroupIsToldInBoth) {
  const test::TemporaryDirectory directory;
  const auto ends = test::RunForkedRanks(kRanks, kWatchdogS, [&](int rank) -> std::string {
    test::DirectoryStore store(directory.path());
    const auto world = MakeGroup(&store, rank, kRanks, {.name = "m", .timeout_ns = kTimeoutNs},
                                 {.fake_nodes = ""});
    if (!world.ok()) return std::string(world.status().message());
    const auto mesh = Mesh::Create(*world, {{"pp", 2}, {"dp", 2}, {"tp", 2}});
    if (!mesh.ok()) return std::string(mesh.status().message());
    const auto data = (*mesh)->Group({"dp", "tp"});
    if (!data.ok()) return std::string(data.status().message());
    const auto inner = Mesh::Create(*data, {{"replica", 2}, {"shard", 2}});
    if (!inner.ok()) return std::string(inner.status().message());
    const absl::Status met = (*world)->Run({.kind = OpKind::kBarrier});
    const Trial trial = {.way = Way::kAbort, .culprit = 0};
    std::string problem(met.message());
    if (rank == 0) {
      poll(nullptr, 0, 20);
      (*inner)->inner()->Abort("sample 9 is torn");
    } else {
      ProcessGroup& waits = rank % 2 == 0 ? *(*mesh)->axis_group(0) : *(*inner)->inner();
      char unused = 0;
      problem = NotTheFailure(
          trial, waits.Run(Message{.out = &unused, .count = 1, .peer = 1 - waits.rank()}));
    }
    (*world)->Close();
    return problem;
  });
  for (const test::RankEnd& end : ends)
    EXPECT_EQ(end.Problem(), "");
}

}  // namespace
}  // namespace weft::mesh_failure_test
