// The k-th system call of one rank fails, for every k, while two ranks make a group, use it and leave it: both get Ok or a
// sentence within their deadlines, and neither keeps anything. Of processes a sample of k, unless all cases are wanted.
#include "tests/support/failing_calls.h"

#include <functional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/log.h"
#include "base/status.h"
#include "base/wait.h"
#include "comm/node/heap.h"
#include "comm/node/make_group.h"
#include "directory_store.h"
#include "left_behind.h"
#include "tests/comm/rendezvous/store_calls.h"
#include "tests/support/case_sample.h"
#include "tests/support/forked_ranks.h"
#include "tests/support/leak_check.h"

namespace weft::test {
namespace {

constexpr int64_t kFirstTimeoutNs = 300'000'000;
constexpr int64_t kLastTimeoutNs = 20'000'000'000;

// Which call fails after call k. Where one was an error the next ones are too, as a rule: they are tried one by one, so that how
// many errors a sample sees does not depend on where in such a run it begins.
int NextCall(int k, bool was_error) {
  return k + (AllCasesWanted() || was_error ? 1 : 3);
}

constexpr int64_t kPatienceNs = 30'000'000'000;  // for what has no deadline of its own

// Once there is a group, ranks are told of failures and need no deadline.
GroupOptions OptionsFor(int64_t init_timeout_ns) {
  return {.name = "fc", .timeout_ns = kLastTimeoutNs, .init_timeout_ns = init_timeout_ns};
}

// Private memory large enough to be staged, then shared memory, blocking and not.
absl::Status Collectives(ProcessGroup& group) {
  constexpr size_t kCount = 50'000;
  std::vector<float> own(kCount, 1.0f);
  Collective call{.kind = OpKind::kAllReduce, .dtype = WEFT_FLOAT32, .count = kCount};
  call.in = call.out = own.data();
  WEFT_RETURN_IF_ERROR(group.Run(call));
  WEFT_ASSIGN_OR_RETURN(void* const block, ProcessHeap().Allocate(kCount * sizeof(float)));
  call.in = call.out = block;
  absl::Status status = group.Run(call);
  if (status.ok()) {
    auto work = group.Start(call);
    status = work.ok() ? (*work)->Wait(0) : work.status();
  }
  const absl::Status freed = ProcessHeap().Free(block);
  return status.ok() ? freed : status;
}

absl::Status UseAndLeave(ProcessGroup& group) {
  absl::Status status = Collectives(group);
  if (status.ok()) {
    auto part = group.Split(0, -group.rank(), {.name = "part"});
    status = part.ok() ? Collectives(**part) : part.status();
    if (part.ok()) (*part)->Close();
  }
  group.Close();
  return status;
}

// One run in which call k fails here, or none if k is 0.
struct Outcome {
  absl::Status status;
  bool struck = false;
  std::string failed;
  std::string problem;
};

Outcome RunWith(int k, int64_t timeout_ns, const std::function<absl::Status()>& body) {
  Outcome run;
  const int64_t start_ns = MonotonicNs();
  {
    FailingCalls failing(k);
    run.status = body();
    run.struck = failing.struck();
    run.failed = failing.what();
  }
  const std::string where = "call " + std::to_string(k) + " (" + run.failed + "): ";
  if (MonotonicNs() - start_ns > 10 * timeout_ns + kPatienceNs) run.problem = where + "too late";
  if (!run.status.ok() && run.status.message().empty()) run.problem = where + "no sentence";
  return run;
}

void IgnoreLog(weft_log_level_t, const char*, void*) {}

// What the loop has seen.
struct Seen {
  std::set<std::string> kinds;
  int errors = 0;

  std::string Problem(size_t kinds_min, int errors_min) const {
    if (kinds.size() >= kinds_min && errors >= errors_min) return "";
    return "only " + std::to_string(kinds.size()) + " kinds of calls failed, with " +
           std::to_string(errors) + " errors: the loop tests nothing";
  }
};

// Both processes loop in step. The victim says the next k when call k has failed, and is done
// when there are fewer calls than k and all went well. A run that ended early because the machine was
// slow is repeated with twice the time.
std::string LoopOverProcesses(int rank, int victim, const std::filesystem::path& directory) {
  SetLogCallback(IgnoreLog, nullptr);
  DirectoryStore control(directory);
  Seen seen;
  int64_t timeout_ns = kFirstTimeoutNs;
  int k = 1;
  for (int turn = 0;; ++turn) {
    const std::string name = "turn-" + std::to_string(turn);
    std::filesystem::create_directory(directory / name);
    DirectoryStore store(directory / name);
    const Holdings before = Holdings::Now();
    const Outcome run = RunWith(rank == victim ? k : 0, timeout_ns, [&]() -> absl::Status {
      WEFT_ASSIGN_OR_RETURN(const auto group,
                            MakeNodeGroup(&store, rank, 2, OptionsFor(timeout_ns)));
      return UseAndLeave(*group);
    });
    if (!run.problem.empty()) return run.problem;
    std::string verdict;
    if (rank == victim) {
      const bool again = !run.struck && !run.status.ok() && timeout_ns < kLastTimeoutNs;
      verdict = run.struck ? std::to_string(NextCall(k, !run.status.ok()))
                : again    ? "again"
                           : "end";
      if (!Set(control, name, verdict, INT64_MAX).ok()) return "could not tell the peer";
    }
    const auto told = Wait(control, name, MonotonicNs() + kPatienceNs);
    if (!told.ok()) return "the victim did not end turn " + std::to_string(turn);
    const std::string left = LeftBehind(before);
    if (!left.empty()) {
      return "call " + std::to_string(k) + " (" + run.failed + "; " +
             std::string(run.status.message()) + ") " + left;
    }
    if (run.struck) seen.kinds.insert(run.failed);
    if (run.struck && !run.status.ok()) ++seen.errors;
    if (*told == "again") {
      timeout_ns *= 2;
      continue;
    }
    if (*told != "end") {
      k = std::stoi(*told);
      continue;
    }
    if (!run.status.ok()) return "without a failing call: " + std::string(run.status.message());
    return rank == victim ? seen.Problem(AllCasesWanted() ? 10 : 6, AllCasesWanted() ? 15 : 5) : "";
  }
}

class Victim : public ::testing::TestWithParam<int> {};

TEST_P(Victim, ProcessesSurviveTheFailureOfAnyCall) {
  const TemporaryDirectory directory;
  const auto ends = RunForkedRanks(
      2, 250, [&](int rank) { return LoopOverProcesses(rank, GetParam(), directory.path()); });
  for (size_t rank = 0; rank < ends.size(); ++rank)
    EXPECT_EQ(ends[rank].Problem(), "") << "rank " << rank;
}

// The calling thread makes the groups and is rank `victim`.
absl::Status LocalGroups(int victim, int64_t timeout_ns) {
  WEFT_ASSIGN_OR_RETURN(const auto groups, CreateLocalGroups(2, OptionsFor(timeout_ns)));
  absl::Status other;
  std::thread peer([&] { other = UseAndLeave(*groups[static_cast<size_t>(1 - victim)]); });
  const absl::Status own = UseAndLeave(*groups[static_cast<size_t>(victim)]);
  peer.join();
  EXPECT_TRUE(other.ok() || !other.message().empty());
  return own.ok() ? other : own;
}

void LoopOverThreads(int victim, Seen* seen) {
  int64_t timeout_ns = kFirstTimeoutNs;
  for (int k = 1;;) {
    const Holdings before = Holdings::Now();
    const Outcome run = RunWith(k, timeout_ns, [&] { return LocalGroups(victim, timeout_ns); });
    ASSERT_EQ(run.problem, "");
    ASSERT_EQ(LeftBehind(before), "") << "call " << k << ": " << run.failed << run.status;
    if (run.struck) {
      seen->kinds.insert(run.failed);
      if (!run.status.ok()) ++seen->errors;
      ++k;
    } else if (run.status.ok()) {
      break;
    } else {
      ASSERT_LT(timeout_ns, kLastTimeoutNs) << run.status;
      timeout_ns *= 2;
    }
  }
}

// Few calls of the victim must be errors: staging that cannot be had at once is asked for again, and memory of the process is taken
// from the system by whichever rank needs it first. So a loop that has seen too few of them is followed by another.
TEST_P(Victim, ThreadsSurviveTheFailureOfAnyCall) {
  constexpr size_t kKindsMin = 5;
  constexpr int kErrorsMin = 3;
  Seen seen;
  for (int loop = 0; loop < 3 && !seen.Problem(kKindsMin, kErrorsMin).empty(); ++loop) {
    LoopOverThreads(GetParam(), &seen);
    if (HasFatalFailure()) return;
  }
  EXPECT_EQ(seen.Problem(kKindsMin, kErrorsMin), "");
}

INSTANTIATE_TEST_SUITE_P(EachRank, Victim, ::testing::Values(0, 1));

}  // namespace
}  // namespace weft::test
