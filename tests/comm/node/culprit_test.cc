// Who is named when a rank stops or dies while others wait for it, and for each other: that rank, by all of them.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/status.h"
#include "base/wait.h"
#include "message_case.h"
#include "rank_processes.h"
#include "tests/support/leak_check.h"
#include "tests/support/real_cgroup.h"
#include "tests/support/shared_value.h"

namespace weft::test::culprit_test {
namespace {

#ifdef WEFT_SANITIZE
constexpr int kTrials = 3;
#else
constexpr int kTrials = 8;
#endif

constexpr int64_t kTimeoutNs = 700'000'000;

// What all ranks see before they have a group; made before they are forked.
struct Exchange {
  std::atomic<int> told{0};
  std::atomic<int> pids[8]{};
};

bool AwaitEndOf(pid_t pid) {
  const int fd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  pollfd item{fd, POLLIN, 0};
  const int ended = fd < 0 && errno == ESRCH ? 1 : poll(&item, 1, 60'000);
  if (fd >= 0) close(fd);
  return ended == 1;
}

bool Await(const std::atomic<int>& value, int want) {
  const int64_t begun_ns = MonotonicNs();
  while (value.load() < want) {
    if (MonotonicNs() - begun_ns > 60'000'000'000) return false;
    poll(nullptr, 0, 1);
  }
  return true;
}

void StopNow(int) {
  raise(SIGSTOP);
}

// Stops the calling process soon, wherever it is then.
void StopWithin(int64_t microseconds) {
  struct sigaction action = {};
  action.sa_handler = StopNow;
  action.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &action, nullptr);
  itimerval timer = {};
  timer.it_value.tv_sec = microseconds / 1'000'000;
  timer.it_value.tv_usec = microseconds % 1'000'000;
  setitimer(ITIMER_REAL, &timer, nullptr);
}

// Operations of all sizes, kinds and roots, some of them several at a time, until one fails.
absl::Status RunUntilFailure(ProcessGroup& group, uint64_t seed) {
  constexpr OpKind kKinds[] = {OpKind::kAllReduce, OpKind::kBroadcast,     OpKind::kAllGather,
                               OpKind::kReduce,    OpKind::kReduceScatter, OpKind::kAllToAll,
                               OpKind::kScan};
  constexpr size_t kCounts[] = {1, 300, 9000, 120'000};
  constexpr size_t kDepth = 3;
  std::mt19937_64 random(seed);
  const auto size = static_cast<size_t>(group.size());
  std::vector<std::vector<float>> in(kDepth, std::vector<float>(120'000 * size));
  std::vector<std::vector<float>> out(kDepth, std::vector<float>(120'000 * size));
  const int64_t begun_ns = MonotonicNs();
  while (MonotonicNs() - begun_ns < 60'000'000'000) {
    const size_t depth = 1 + random() % kDepth;
    std::vector<WorkRef> works;
    absl::Status status;
    for (size_t i = 0; i < depth && status.ok(); ++i) {
      Collective call{.kind = kKinds[random() % std::size(kKinds)],
                      .dtype = WEFT_FLOAT32,
                      .root = static_cast<int32_t>(random() % size),
                      .count = kCounts[random() % std::size(kCounts)]};
      call.in = in[i].data();
      call.out = out[i].data();
      if (depth == 1) {
        status = group.Run(call);
        continue;
      }
      absl::StatusOr<WorkRef> work = group.Start(call);
      if (work.ok()) {
        works.push_back(*std::move(work));
      } else {
        status = work.status();
      }
    }
    for (const WorkRef& work : works) {
      const absl::Status ended = work->Wait(0);
      if (status.ok()) status = ended;
    }
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

class StoppedRank : public ::testing::TestWithParam<int> {};

// In groups that were split from one that goes on: so there are many trials for the price of one, and names of two ranks.
TEST_P(StoppedRank, IsNamedByAllOthersWhereverItStops) {
  const int size = GetParam();
  const uint64_t seed = TestSeed(11);
  const SharedValue<Exchange> exchange;
  RunProcessRanks(size, [&](ProcessGroup& group) -> std::string {
    exchange->pids[group.rank()] = getpid();
    for (int trial = 0; trial < kTrials; ++trial) {
      std::mt19937_64 random(seed + static_cast<uint64_t>(100 * size + trial));
      const int victim = static_cast<int>(random() % static_cast<uint64_t>(size));
      const auto delay_us = static_cast<int64_t>(1000 + random() % 60'000);
      // In reverse, so that ranks have other numbers.
      auto part = group.Split(0, -group.rank(), {.name = "dp", .timeout_ns = kTimeoutNs});
      if (!part.ok()) return Text(part.status());
      const std::string trial_text = "seed " + std::to_string(seed) + ", trial " +
                                     std::to_string(trial) + ", rank " + std::to_string(victim) +
                                     " stopped: ";
      if (group.rank() == victim) StopWithin(delay_us);
      const absl::Status status = RunUntilFailure(**part, random());
      const int told = ++exchange->told;
      // The last of the others lets it go on; it then says that it was late, too.
      if (group.rank() != victim && told == (trial + 1) * size - 1) {
        kill(exchange->pids[victim], SIGCONT);
      }
      if (!Await(exchange->told, (trial + 1) * size)) return trial_text + "somebody hangs";
      (*part)->Close();
      // Stopped between two operations, it finds that the group has ended when it starts the second one.
      const bool refused = group.rank() == victim && ResultOf(status) == WEFT_ABORTED;
      if (ResultOf(status) != WEFT_TIMEOUT && !refused) {
        return trial_text + "got: " + Text(status);
      }
      const ErrorFields fields = FieldsOf(status);
      const bool named = fields.rank == size - 1 - victim && fields.world_rank == victim &&
                         fields.pid == exchange->pids[victim];
      if (!named && !refused) return trial_text + Text(status);
      const std::string name = "rank " + std::to_string(size - 1 - victim) + " of group dp (rank " +
                               std::to_string(victim) + " of group p, host ";
      if (Text(status).find(name) == std::string::npos) return trial_text + Text(status);
    }
    return "";
  });
}

INSTANTIATE_TEST_SUITE_P(RankSet, StoppedRank, ::testing::Values(3, 4, 5, 6, 8));

// Each rank waits for a message of the next one, the last one is stopped; and so does nobody wait for it in vain.
TEST(StoppedRank, IsNamedAtTheEndOfALineOfMessages) {
  constexpr int kSize = 4;
  const SharedValue<Exchange> exchange;
  RunProcessRanks(kSize, [&](ProcessGroup& group) -> std::string {
    exchange->pids[group.rank()] = getpid();
    if (!group.Run({.kind = OpKind::kBarrier}).ok()) return "the barrier failed";
    char data[8] = {};
    absl::Status status;
    if (group.rank() == kSize - 1) {
      raise(SIGSTOP);
      status = group.Run({.kind = OpKind::kBarrier});
    } else {
      Message recv = RecvOf(data, sizeof(data), group.rank() + 1, 5);
      recv.timeout_ns = kTimeoutNs;
      status = group.Run(recv);
      if (++exchange->told == kSize - 1) kill(exchange->pids[kSize - 1], SIGCONT);
    }
    if (ResultOf(status) != WEFT_TIMEOUT) return "got: " + Text(status);
    return FieldsOf(status).rank == kSize - 1 ? "" : Text(status);
  });
}

// Who is frozen with its control group seems to sleep, or to be in a system call: like a stopped one it is named, and not those
// that wait.
TEST(FrozenRank, IsNamedAtTheEndOfALineOfMessages) {
  constexpr int kSize = 3;
  const RealCgroup cgroup("freezer", "freezer.state", "cgroup.freeze");
  if (!cgroup.made()) GTEST_SKIP() << "no control groups can be made here";
  const SharedValue<Exchange> exchange;
  RunProcessRanks(kSize, [&](ProcessGroup& group) -> std::string {
    exchange->pids[group.rank()] = getpid();
    if (!group.Run({.kind = OpKind::kBarrier}).ok()) return "the barrier failed";
    char data[8] = {};
    if (group.rank() == kSize - 1) {
      Message recv = RecvOf(data, sizeof(data), 0, 6);
      const weft_result_t result = ResultOf(group.Run(recv));
      return result == WEFT_TIMEOUT || result == WEFT_ABORTED ? "" : "rank 0 sent one";
    }
    if (group.rank() == 0) {
      const bool frozen = cgroup.Take(exchange->pids[kSize - 1]) && cgroup.Freeze(true);
      exchange->pids[7] = frozen ? 1 : -1;
    }
    while (exchange->pids[7].load() == 0)
      poll(nullptr, 0, 1);
    absl::Status status = MakeError(WEFT_TIMEOUT, {.rank = kSize - 1}, "frozen by its cgroup");
    if (exchange->pids[7] == 1) {
      Message recv = RecvOf(data, sizeof(data), group.rank() + 1, 5);
      recv.timeout_ns = kTimeoutNs;
      status = group.Run(recv);
    }
    if (++exchange->told == kSize - 1) {
      cgroup.Freeze(false);
      if (exchange->pids[7] != 1) group.Abort("this system does not freeze");
    }
    if (ResultOf(status) != WEFT_TIMEOUT) return "got: " + Text(status);
    const bool named = FieldsOf(status).rank == kSize - 1 &&
                       Text(status).find("frozen by its cgroup") != std::string::npos;
    return named ? "" : Text(status);
  });
}

// The abort of one who has seen the death: the death is why the group ends, whoever was quicker.
TEST(KilledRank, IsTheCauseOfAnAbortThatFollowsIt) {
  constexpr int kSize = 4;
  constexpr int kVictim = 2;
  const SharedValue<Exchange> exchange;
  RunProcessRanks(kSize,
                  [&](ProcessGroup& group) -> std::string {
                    exchange->pids[group.rank()] = getpid();
                    if (!group.Run({.kind = OpKind::kBarrier}).ok()) return "the barrier failed";
                    if (group.rank() == kVictim) raise(SIGKILL);
                    if (group.rank() == 1) {
                      if (!AwaitEndOf(exchange->pids[kVictim])) return "the victim lives";
                      group.Abort("a program's own reason");
                      exchange->told = 1;
                    }
                    if (!Await(exchange->told, 1)) return "nobody aborted";
                    const absl::Status error = group.error();
                    const absl::Status status = group.Run({.kind = OpKind::kBarrier});
                    for (const absl::Status& said : {error, status}) {
                      if (ResultOf(said) != WEFT_PEER_LOST) return "got: " + Text(said);
                      const ErrorFields fields = FieldsOf(said);
                      if (fields.rank != kVictim || fields.signal != SIGKILL)
                        return "blames: " + Text(said);
                    }
                    return "";
                  },
                  {kVictim});
}

// Rank 1 has learned of the death elsewhere, and leaves; rank 0 waits for both.
TEST(LostRank, IsNamedAndNotWhoLeftBecauseOfIt) {
  constexpr int kVictim = 2;
  const SharedValue<Exchange> exchange;
  RunProcessRanks(3,
                  [&](ProcessGroup& group) -> std::string {
                    exchange->pids[group.rank()] = getpid();
                    if (!group.Run({.kind = OpKind::kBarrier}).ok()) return "the barrier failed";
                    if (group.rank() == kVictim) raise(SIGKILL);
                    if (group.rank() == 1) {
                      if (!AwaitEndOf(exchange->pids[kVictim])) return "the victim lives";
                      group.Close();
                      exchange->told = 1;
                      return "";
                    }
                    if (!Await(exchange->told, 1)) return "nobody left";
                    const absl::Status status = group.Run({.kind = OpKind::kBarrier});
                    const ErrorFields fields = FieldsOf(status);
                    const bool named = ResultOf(status) == WEFT_PEER_LOST &&
                                       fields.rank == kVictim && fields.signal == SIGKILL;
                    return named ? "" : "got: " + Text(status);
                  },
                  {kVictim});
}

}  // namespace
}  // namespace weft::test::culprit_test
