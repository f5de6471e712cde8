// Groups over fake nodes of this machine, as processes: how they end, and that all ranks on all nodes say the same.
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/seams.h"
#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"
#include "comm/group/progress.h"
#include "comm/hierarchy/make_group.h"
#include "comm/hierarchy/make_span.h"
#include "tests/comm/node/directory_store.h"
#include "tests/comm/node/left_behind.h"
#include "tests/support/forked_ranks.h"
#include "tests/support/leak_check.h"
#include "tests/support/shared_value.h"

namespace weft::test {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kSecondNs = 1'000 * kMs;
constexpr int kRanksMax = 8;

struct Seen {
  std::atomic<int> ready{0};
  std::atomic<int64_t> begun_ns{0};  // when the fault was caused
  std::atomic<int> done{0};
  std::atomic<int> pids[kRanksMax] = {};
};

struct Shape {
  int size;
  std::string nodes;
  int64_t limit_ns = 10 * kSecondNs;  // longer than a process may be without a CPU
};

// Until `done`, looking as a program with WEFT_PROGRESS=caller does.
bool Await(int64_t within_ns, const std::function<bool()>& done) {
  const int64_t until_ns = MonotonicNs() + within_ns;
  while (!done()) {
    if (MonotonicNs() > until_ns) return false;
    LookAfterGroups();
    usleep(500);
  }
  return true;
}

bool IsStopped(pid_t pid) {
  const auto process = SystemSeams().proc->Open(pid, 0);
  return process.ok() && IsStalled((*process)->State());
}

absl::StatusOr<SpanCore> Make(Store& store, int rank, const Shape& shape, int64_t timeout_ns) {
  const GroupOptions options{.name = "s", .timeout_ns = timeout_ns};
  auto meeting = MeetAll(store, rank, shape.size, options, {.fake_nodes = shape.nodes});
  if (!meeting.ok()) return meeting.status();
  return MakeSpan(store, *std::move(meeting), options, {.limit_ns = shape.limit_ns});
}

using Body = std::function<std::string(int rank, SpanCore& span, Seen& seen)>;

// Every rank makes the group and runs the body when all have it; those in `killed` must end by a signal.
void RunSpan(const Shape& shape, const Body& body, const std::vector<int>& killed = {}) {
  SCOPED_TRACE(StrCat(shape.size, " ranks on nodes ", shape.nodes));
  const TemporaryDirectory directory;
  const SharedValue<Seen> seen;
  const auto ends = RunForkedRanks(shape.size, 120, [&](int rank) -> std::string {
    const Holdings before = Holdings::Now();
    std::string problem;
    {
      DirectoryStore store(directory.path());
      auto span = Make(store, rank, shape, 60 * kSecondNs);
      if (!span.ok()) return StrCat("making: ", std::string(span.status().message()));
      seen->pids[rank].store(getpid());
      seen->ready.fetch_add(1);
      if (!Await(30 * kSecondNs, [&] { return seen->ready.load() == shape.size; }))
        return "not all are ready";
      problem = body(rank, *span, *seen.operator->());
      CloseSpan(&*span);
    }
    return problem.empty() ? LeftBehind(before) : problem;
  });
  for (size_t rank = 0; rank < ends.size(); ++rank) {
    if (std::count(killed.begin(), killed.end(), static_cast<int>(rank)) != 0) {
      EXPECT_TRUE(WIFSIGNALED(ends[rank].wait_status));
    } else {
      EXPECT_EQ(ends[rank].Problem(), "") << "rank " << rank;
    }
  }
}

// "" if the group ends within the time, as the loss of that rank.
std::string ExpectLoss(SpanCore& span, int lost, int signal, int64_t within_ns) {
  absl::Status cause;
  if (!Await(within_ns, [&] { return !(cause = span.net->watch().Cause(*span.end)).ok(); })) {
    return "nothing was heard of the loss";
  }
  const ErrorFields fields = FieldsOf(cause);
  const std::string said(cause.message());
  if (ResultOf(cause) != WEFT_PEER_LOST || fields.rank != lost || fields.world_rank != lost ||
      fields.signal != signal || fields.group != "s" ||
      said.find(StrCat("rank ", lost, " (host ")) == std::string::npos) {
    return StrCat("it says: ", said, ", rank ", fields.rank, ", signal ", fields.signal);
  }
  return "";
}

// What all ranks but some have told each other in order: the first difference is a problem.
class SameOnAll {
 public:
  std::string Compare(const absl::Status& status) {
    char mine[512] = {};
    std::snprintf(mine, sizeof(mine), "%d %d %s", static_cast<int>(ResultOf(status)),
                  FieldsOf(status).rank, std::string(status.message()).c_str());
    int expected = 0;
    if (state_.compare_exchange_strong(expected, 1)) {
      std::snprintf(text_, sizeof(text_), "%s", mine);
      state_.store(2);
      return "";
    }
    while (state_.load() != 2)
      usleep(100);
    return std::string(text_) == mine
               ? ""
               : StrCat("another rank says '", text_, "', this one '", mine, "'");
  }

 private:
  std::atomic<int> state_{0};
  char text_[512] = {};
};

const Shape kShapes[] = {{4, "2"}, {3, "0,0,1"}, {4, "0,1,0,1"}, {6, "3"}};

TEST(SpanFailure, AGroupIsMadeAndClosedAndLeavesNothing) {
  for (const Shape& shape : kShapes) {
    RunSpan(shape, [](int /*rank*/, SpanCore& span, Seen& seen) -> std::string {
      (void)seen;
      Collective barrier{.kind = OpKind::kBarrier};
      const absl::Status met = span.inner->Run(barrier);
      return met.ok() ? "" : std::string(met.message());
    });
  }
}

// Those who have done all of their part may leave: nobody calls them lost, and nobody misses them.
TEST(SpanFailure, WhoLeavesIsNotMissed) {
  for (const Shape& shape : kShapes) {
    Shape hasty = shape;
    hasty.limit_ns = 5 * kSecondNs / 2;  // on a busy machine, to be connected takes up to a second
    RunSpan(hasty, [&](int rank, SpanCore& span, Seen& seen) -> std::string {
      if (rank != 0) {
        seen.done.fetch_add(1);
        return "";
      }
      if (!Await(10 * kSecondNs, [&] { return seen.done.load() == shape.size - 1; }))
        return "they stay";
      const int64_t until_ns = MonotonicNs() + 4 * kSecondNs;
      while (MonotonicNs() < until_ns) {
        LookAfterGroups();
        usleep(1'000);
        const absl::Status cause = span.net->watch().Cause(*span.end);
        if (!cause.ok()) return StrCat("it says: ", std::string(cause.message()));
      }
      return "";
    });
  }
}

// Nobody waits for the rank that is killed, and no other node sees its process.
TEST(SpanFailure, AKilledRankIsNamedOnAllNodesThoughNobodyWaits) {
  for (const int victim : {1, 2}) {
    for (const Shape& shape : {Shape{4, "0,0,1,1"}, Shape{4, "0,1,1,0"}, Shape{6, "2"}}) {
      SCOPED_TRACE(StrCat("rank ", victim, " is killed"));
      const SharedValue<SameOnAll> same;
      RunSpan(shape,
              [&](int rank, SpanCore& span, Seen& seen) -> std::string {
                if (rank == victim) {
                  seen.begun_ns.store(MonotonicNs());
                  (void)kill(getpid(), SIGKILL);
                }
                const std::string problem = ExpectLoss(span, victim, SIGKILL, 10 * kSecondNs);
                const int64_t took_ns = MonotonicNs() - seen.begun_ns.load();
                if (rank == shape.size - 1) {
                  std::printf("a killed rank named on all nodes: %.1f ms\n",
                              static_cast<double>(took_ns) / 1e6);
                }
                return problem.empty() ? same->Compare(span.net->watch().Cause(*span.end))
                                       : problem;
              },
              {victim});
    }
  }
}

// Ranks that wait among themselves, on another node, are released.
TEST(SpanFailure, WhoWaitsOnAnotherNodeIsReleased) {
  const SharedValue<SameOnAll> same;
  RunSpan({4, "2"},
          [&](int rank, SpanCore& span, Seen& seen) -> std::string {
            if (rank == 3) {
              usleep(200'000);
              (void)kill(getpid(), SIGKILL);
            }
            // Rank 1 never comes.
            if (rank == 1) return ExpectLoss(span, 3, SIGKILL, 10 * kSecondNs);
            const absl::Status failed = span.inner->Run({.kind = OpKind::kBarrier});
            if (failed.ok()) return "the barrier was met";
            const absl::Status cause = span.net->watch().AwaitCause(*span.end);
            (void)seen;
            if (FieldsOf(cause).rank != 3) return std::string(cause.message());
            return same->Compare(cause);
          },
          {3});
}

TEST(SpanFailure, SeveralCausesSettleToOne) {
  for (int round = 0; round < 5; ++round) {
    const SharedValue<SameOnAll> same;
    RunSpan({6, "3"},
            [&](int rank, SpanCore& span, Seen& /*seen*/) -> std::string {
              if (rank == 5) (void)kill(getpid(), SIGKILL);
              if (rank == 0) span.inner->Abort("rank 0 has had enough");
              if (rank == 2) span.inner->Abort("rank 2, too");
              absl::Status cause;
              if (!Await(10 * kSecondNs,
                         [&] { return !(cause = span.net->watch().Cause(*span.end)).ok(); })) {
                return "nothing was heard";
              }
              return same->Compare(cause);
            },
            {5});
  }
}

TEST(SpanFailure, AnAbortIsToldWithItsReason) {
  const SharedValue<SameOnAll> same;
  RunSpan({4, "2"}, [&](int rank, SpanCore& span, Seen& /*seen*/) -> std::string {
    if (rank == 2) span.inner->Abort("no more data");
    absl::Status cause;
    if (!Await(10 * kSecondNs,
               [&] { return !(cause = span.net->watch().Cause(*span.end)).ok(); })) {
      return "nothing was heard of the abort";
    }
    std::string said(cause.message());
    if (ResultOf(cause) != WEFT_ABORTED || FieldsOf(cause).rank != 2 ||
        said.find("aborted by rank 2: no more data") == std::string::npos) {
      return said;
    }
    return same->Compare(cause);
  });
}

// Nobody of its node stays to tell.
TEST(SpanFailure, WhoAbortsAndLeavesAtOnceIsHeard) {
  for (const Shape& shape : {Shape{3, "0,0,1"}, Shape{4, "2"}}) {
    const SharedValue<SameOnAll> same;
    RunSpan(shape, [&](int rank, SpanCore& span, Seen& /*seen*/) -> std::string {
      if (rank == 2) span.inner->Abort("no more data");
      if (rank >= 2) return "";
      absl::Status cause;
      if (!Await(10 * kSecondNs,
                 [&] { return !(cause = span.net->watch().Cause(*span.end)).ok(); })) {
        return "nothing was heard of the abort";
      }
      return FieldsOf(cause).rank == 2 ? same->Compare(cause) : std::string(cause.message());
    });
  }
}

// What is found first need not be what counts.
TEST(SpanFailure, ADeathThatFollowsAnAbortIsTheCause) {
  RunSpan({4, "2"},
          [&](int rank, SpanCore& span, Seen& /*seen*/) -> std::string {
            if (rank == 3) {
              span.inner->Abort("I end");
              (void)kill(getpid(), SIGKILL);
            }
            absl::Status cause;
            if (!Await(10 * kSecondNs,
                       [&] { return !(cause = span.net->watch().Cause(*span.end)).ok(); })) {
              return "nothing was heard";
            }
            return FieldsOf(cause).rank == 3 ? "" : std::string(cause.message());
          },
          {3});
}

TEST(SpanFailure, AForkedChildTouchesNothing) {
  RunSpan({2, "2"}, [&](int /*rank*/, SpanCore& span, Seen& /*seen*/) -> std::string {
    const pid_t child = fork();
    if (child == 0) {
      const bool nothing = span.net->watch().Cause(*span.end).ok();
      CloseSpan(&span);
      _exit(nothing ? 0 : 1);
    }
    int status = 0;
    if (waitpid(child, &status, 0) != child || status != 0) return StrCat("the child: ", status);
    return span.inner->Run({.kind = OpKind::kBarrier}).ok() ? "" : "the parent's group has ended";
  });
}

// Nobody is left who could say how its ranks ended.
TEST(SpanFailure, ALostNodeIsUnreachable) {
  const SharedValue<SameOnAll> same;
  RunSpan({5, "0,0,1,1,2", 2 * kSecondNs},
          [&](int rank, SpanCore& span, Seen& seen) -> std::string {
            if (rank == 2 || rank == 3) {
              seen.done.fetch_add(1);
              while (true)
                pause();
            }
            if (rank == 0) {
              if (!Await(10 * kSecondNs, [&] { return seen.done.load() == 2; }))
                return "not all are there";
              // Stopped first, so that neither sees the other one end.
              for (const int victim : {2, 3}) {
                (void)kill(seen.pids[victim].load(), SIGSTOP);
                if (!Await(10 * kSecondNs, [&] { return IsStopped(seen.pids[victim].load()); }))
                  return "it goes on";
              }
              for (const int victim : {2, 3})
                (void)kill(seen.pids[victim].load(), SIGKILL);
            }
            absl::Status cause;
            if (!Await(20 * kSecondNs,
                       [&] { return !(cause = span.net->watch().Cause(*span.end)).ok(); })) {
              return "nothing was heard of the node";
            }
            std::string said(cause.message());
            if (ResultOf(cause) != WEFT_UNREACHABLE || FieldsOf(cause).rank != 2) return said;
            return same->Compare(cause);
          },
          {2, 3});
}

// A copy of its sockets in a child that lives on does not make it one that is only stopped.
TEST(SpanFailure, AKilledNodeIsMissedThoughAForkedChildOfItLives) {
  const SharedValue<SameOnAll> same;
  RunSpan({2, "0,1", 2 * kSecondNs},
          [&](int rank, SpanCore& span, Seen& seen) -> std::string {
            if (rank == 1) {
              // Until the nodes are connected.
              const int64_t until_ns = MonotonicNs() + kSecondNs / 2;
              (void)Await(kSecondNs, [&] { return MonotonicNs() > until_ns; });
              const pid_t child = fork();
              if (child == 0) {
                (void)alarm(60);
                while (true)
                  pause();
              }
              seen.pids[2].store(child);
              (void)kill(getpid(), SIGKILL);
            }
            absl::Status cause;
            const bool heard = Await(
                20 * kSecondNs, [&] { return !(cause = span.net->watch().Cause(*span.end)).ok(); });
            const bool child_lives = kill(seen.pids[2].load(), 0) == 0;
            (void)kill(seen.pids[2].load(), SIGKILL);
            if (!heard) return "nothing was heard of the node";
            if (!child_lives) return "the child has ended";
            return ResultOf(cause) == WEFT_UNREACHABLE && FieldsOf(cause).rank == 1
                       ? ""
                       : std::string(cause.message());
          },
          {1});
}

// A stopped process is not dead: another one of its node speaks.
TEST(SpanFailure, AStoppedSpeakerIsNotMissed) {
  RunSpan({4, "2", kSecondNs}, [&](int rank, SpanCore& span, Seen& seen) -> std::string {
    if (rank == 3) {
      (void)kill(seen.pids[2].load(), SIGSTOP);
      const int64_t until_ns = MonotonicNs() + 3 * kSecondNs;
      (void)Await(10 * kSecondNs, [&] { return MonotonicNs() > until_ns; });
      (void)kill(seen.pids[2].load(), SIGCONT);
      seen.done.store(1);
    }
    if (!Await(20 * kSecondNs, [&] { return seen.done.load() == 1; })) return "it lasts too long";
    const absl::Status cause = span.net->watch().Cause(*span.end);
    return cause.ok() ? "" : std::string(cause.message());
  });
}

int64_t CpuNs() {
  timespec used = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return int64_t{used.tv_sec} * kSecondNs + used.tv_nsec;
}

TEST(SpanFailure, IdleNodesHardlyRun) {
  RunSpan({4, "2", 3 * kSecondNs}, [](int rank, SpanCore& /*span*/, Seen& seen) -> std::string {
    constexpr int64_t kIdleNs = 2 * kSecondNs;
    const int64_t before_ns = CpuNs();
    usleep(kIdleNs / 1000);
    const double percent =
        100.0 * static_cast<double>(CpuNs() - before_ns) / static_cast<double>(kIdleNs);
    std::printf("rank %d, idle: %.3f %% of a core\n", rank, percent);
    seen.done.fetch_add(1);
    if (!Await(10 * kSecondNs, [&] { return seen.done.load() == 4; })) return "not all have ended";
    return percent < 10 ? "" : "it turns in circles";  // whoever did would use all of one
  });
}

TEST(OneNode, RanksOfOneMachineShareMemory) {
  const TemporaryDirectory directory;
  for (const char* const nodes : {"", "1", "4,4,4"}) {
    const auto ends = RunForkedRanks(3, 60, [&](int rank) -> std::string {
      DirectoryStore store(directory.path());
      const auto group = MakeGroup(&store, rank, 3, {.name = "n", .timeout_ns = 20 * kSecondNs},
                                   {.fake_nodes = nodes, .span = {}});
      if (!group.ok()) return std::string(group.status().message());
      const auto shared = (*group)->AllocateShared(64);
      const absl::Status met = (*group)->Run({.kind = OpKind::kBarrier});
      (*group)->Close();
      return shared.ok() && met.ok() ? "" : "it is no node group";
    });
    for (const RankEnd& end : ends)
      EXPECT_EQ(end.Problem(), "");
  }
}

TEST(SpanFailure, MakingItEndsAtTheDeadlineAndNamesWhoIsMissing) {
  const TemporaryDirectory directory;
  const auto ends = RunForkedRanks(3, 60, [&](int rank) -> std::string {
    if (rank == 2) return "";
    DirectoryStore store(directory.path());
    const auto span = Make(store, rank, {.size = 3, .nodes = "0,0,1"}, kSecondNs);
    if (span.ok()) return "it was made";
    const std::string said(span.status().message());
    return ResultOf(span.status()) == WEFT_TIMEOUT && said.find("2") != std::string::npos ? ""
                                                                                          : said;
  });
  for (const RankEnd& end : ends)
    EXPECT_EQ(end.Problem(), "");
}

}  // namespace
}  // namespace weft::test
