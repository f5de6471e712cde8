// Ranks that are killed at any moment: while a group is made, used, split or left. Every survivor names the dead one, soon; and nobody
// else is ever named, nor is any result wrong.
//
// TEST_CASES=all (nightly) kills 500; the times of all are printed.
#include <algorithm>
#include <atomic>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/status.h"
#include "base/wait.h"
#include "comm/node/make_group.h"
#include "directory_store.h"
#include "left_behind.h"
#include "message_case.h"
#include "tests/support/case_sample.h"
#include "tests/support/forked_ranks.h"
#include "tests/support/kill_within.h"
#include "tests/support/leak_check.h"
#include "tests/support/shared_value.h"
#include "tests/support/survivor_times.h"

namespace weft::test::random_kill_test {
namespace {

constexpr int kRanksMax = 8;
constexpr int kKills = 500;
constexpr int64_t kHardNs = 1'000'000'000;  // within which all must know
constexpr int64_t kTrialNs = 60'000'000'000;
constexpr int64_t kMakingNs = 3'000'000'000;
constexpr double kLimitS = 120;

enum class Phase { kMaking, kBlocking, kWorks, kMessages, kSplits, kIdle, kLeaving };
constexpr int kPhaseCount = 7;
constexpr const char* kPhaseNames[kPhaseCount] = {"making", "blocking", "works",  "messages",
                                                  "splits", "idle",     "leaving"};

struct Trial {
  uint64_t seed = 0;
  int size = 2;
  int victim = 0;
  Phase phase = Phase::kBlocking;
  int64_t delay_us = 0;  // from the beginning of the phase
};

// What ranks see of each other before they have a group.
struct Exchange {
  std::atomic<int64_t> killed_ns{0};
  std::atomic<int64_t> knew_ns[kRanksMax]{};
};

// One rank of a trial, with a group, until something fails.
class Rank {
 public:
  Rank(const Trial& trial, ProcessGroup& group)
      : trial_(trial), group_(group), random_(trial.seed) {}

  // The first failure; Ok if none came in time.
  absl::Status RunUntilFailure() {
    const int64_t begun_ns = MonotonicNs();
    while (MonotonicNs() - begun_ns < kTrialNs) {
      if (absl::Status status = RunOnce(); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

 private:
  absl::Status RunOnce() {
    switch (trial_.phase) {
      case Phase::kWorks:
        return Works();
      case Phase::kMessages:
        return Messages();
      case Phase::kSplits:
        return Split();
      case Phase::kIdle:
        poll(nullptr, 0, 1);
        return group_.error();
      default:
        return Reduce(kCounts[random_() % std::size(kCounts)]);
    }
  }

  absl::Status Reduce(size_t count) {
    std::vector<float> data(count, 1);
    Collective call{.kind = OpKind::kAllReduce, .dtype = WEFT_FLOAT32, .count = count};
    call.in = call.out = data.data();
    WEFT_RETURN_IF_ERROR(group_.Run(call));
    const auto sum = static_cast<float>(group_.size());
    const bool right = std::all_of(data.begin(), data.end(), [&](float x) { return x == sum; });
    return right ? absl::OkStatus() : absl::InternalError("a wrong sum");
  }

  absl::Status Works() {
    std::vector<float> data[3];
    std::vector<WorkRef> works;
    absl::Status status;
    for (auto& one : data) {
      one.assign(kCounts[random_() % std::size(kCounts)], 1);
      Collective call{.kind = OpKind::kAllReduce, .dtype = WEFT_FLOAT32, .count = one.size()};
      call.in = call.out = one.data();
      absl::StatusOr<WorkRef> work = group_.Start(call);
      if (!work.ok()) {
        status = work.status();
        break;
      }
      works.push_back(*std::move(work));
    }
    absl::Status first;  // what could not be started has no more to say than what was under way
    for (const WorkRef& work : works) {
      const absl::Status ended = work->Wait(0);
      if (first.ok()) first = ended;
    }
    return first.ok() ? status : first;
  }

  // Around a ring, and no rank further than that from the others.
  absl::Status Messages() {
    const int size = group_.size();
    std::vector<char> in(kCounts[random_() % std::size(kCounts)], 1);
    std::vector<char> out(in.size());
    WEFT_RETURN_IF_ERROR(
        group_.RunPair(SendOf(in.data(), in.size(), (group_.rank() + 1) % size),
                       RecvOf(out.data(), out.size(), (group_.rank() + size - 1) % size)));
    return random_() % 8 == 0 ? group_.Run({.kind = OpKind::kBarrier}) : absl::OkStatus();
  }

  absl::Status Split() {
    const int parts = 1 + static_cast<int>(random_() % 2);
    WEFT_ASSIGN_OR_RETURN(const std::shared_ptr<ProcessGroup> part,
                          group_.Split(group_.rank() % parts, 0, {}));
    absl::Status status = part->Run({.kind = OpKind::kBarrier});
    part->Close();
    return status;
  }

  static constexpr size_t kCounts[] = {1, 300, 9000, 120'000};

  const Trial& trial_;
  ProcessGroup& group_;
  std::mt19937_64 random_;
};

// Of a rank that was killed before it said that it was there, nothing is known but that it did not come.
bool NeverCame(const absl::Status& status, const Trial& trial) {
  return trial.phase == Phase::kMaking && ResultOf(status) == WEFT_TIMEOUT &&
         FieldsOf(status).rank == trial.victim;
}

std::string NamesVictim(const absl::Status& status, const Trial& trial) {
  const ErrorFields fields = FieldsOf(status);
  if (NeverCame(status, trial)) return "";
  const bool named = ResultOf(status) == WEFT_PEER_LOST && fields.world_rank == trial.victim &&
                     fields.signal == SIGKILL;
  return named ? "" : "got: " + Text(status);
}

std::string RunRank(const Trial& trial, Exchange* exchange, const std::string& directory,
                    int rank) {
  const Holdings before = Holdings::Now();
  std::string problem;
  {
    DirectoryStore store(directory);
    if (rank == trial.victim && trial.phase == Phase::kMaking) {
      KillWithin(&exchange->killed_ns, trial.delay_us);
    }
    absl::StatusOr<std::shared_ptr<ProcessGroup>> group =
        MakeNodeGroup(&store, rank, trial.size,
                      {.name = "k", .timeout_ns = kTrialNs, .init_timeout_ns = kMakingNs});
    absl::Status status = group.status();
    if (status.ok()) {
      if (rank == trial.victim && trial.phase != Phase::kMaking) {
        KillWithin(&exchange->killed_ns, trial.delay_us);
      }
      Rank self(trial, **group);
      const bool leaves = trial.phase == Phase::kLeaving && rank != trial.victim && rank != 0;
      if (!leaves) status = self.RunUntilFailure();
    }
    exchange->knew_ns[rank].store(NeverCame(status, trial) ? 0 : MonotonicNs());
    const int64_t closing_ns = MonotonicNs();
    if (group.ok()) (*group)->Close();
    if (MonotonicNs() - closing_ns > 2 * kHardNs) problem = "closing took long";
    // Where others leave, who stays may be told of them first.
    const bool may_name_others = trial.phase == Phase::kLeaving;
    if (problem.empty() && !may_name_others) problem = NamesVictim(status, trial);
    if (may_name_others && !status.ok() && ResultOf(status) != WEFT_PEER_LOST)
      problem = Text(status);
  }
  if (!problem.empty()) return problem;
  return LeftBehind(before);
}

TEST(RandomKill, IsNamedByEverySurvivorSoon) {
  const uint64_t first_seed = TestSeed(std::random_device()());
  const CaseSample sample({.every = 7, .sanitized = 37}, first_seed);
  SurvivorTimes times;
  for (int kill = 0; kill < kKills; ++kill) {
    if (!sample.Takes(static_cast<size_t>(kill))) continue;
    std::mt19937_64 random(first_seed + static_cast<uint64_t>(kill));
    Trial trial{.seed = random()};
    trial.size = 2 + static_cast<int>(random() % (kRanksMax - 1));
    trial.victim = static_cast<int>(random() % static_cast<uint64_t>(trial.size));
    trial.phase = static_cast<Phase>(random() % kPhaseCount);
    trial.delay_us = static_cast<int64_t>(random() % 20'000);
    SCOPED_TRACE("WEFT_TEST_SEED=" + std::to_string(first_seed) + ", kill " + std::to_string(kill) +
                 ": rank " + std::to_string(trial.victim) + " of " + std::to_string(trial.size) +
                 " while " + kPhaseNames[static_cast<int>(trial.phase)]);
    const TemporaryDirectory directory;
    const SharedValue<Exchange> exchange;
    const auto ends = RunForkedRanks(trial.size, kLimitS, [&](int rank) {
      return RunRank(trial, exchange.operator->(), directory.path(), rank);
    });
    const bool killed = exchange->killed_ns.load() > 0;
    for (int rank = 0; rank < trial.size; ++rank) {
      const RankEnd& end = ends[static_cast<size_t>(rank)];
      if (rank == trial.victim && WIFSIGNALED(end.wait_status)) continue;
      EXPECT_EQ(end.Problem(), "") << "rank " << rank;
      const int64_t knew_ns = exchange->knew_ns[rank].load();
      if (!killed || rank == trial.victim || knew_ns == 0 || trial.phase == Phase::kLeaving)
        continue;
      EXPECT_LT(times.Add(exchange->killed_ns.load(), knew_ns), kHardNs * 1e-6) << "rank " << rank;
    }
    if (HasFailure()) break;
  }
  sample.Print("random kills", kKills);
  ASSERT_FALSE(times.empty());
  times.Print();
}

}  // namespace
}  // namespace weft::test::random_kill_test
