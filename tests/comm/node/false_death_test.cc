// No rank that lives is ever called dead, however little it gets to run: 8 ranks on the CPUs of this machine beside as many processes
// that only compute, one of them stopped for long, one of them with a twentieth of a CPU.
//
// TEST_CASES=all (nightly): a million operations, 40 s stopped.
#include <atomic>
#include <cstdio>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/status.h"
#include "base/wait.h"
#include "message_case.h"
#include "rank_processes.h"
#include "tests/support/case_sample.h"
#include "tests/support/real_cgroup.h"
#include "tests/support/shared_value.h"

namespace weft::test::false_death_test {
namespace {

constexpr int kSize = 8;
constexpr int kVictim = 3;
constexpr double kLimitS = 1200;

struct Amount {
  int operations;
  int starved_operations;
  int stopped_ms;
};

Amount Wanted() {
  if (AllCasesWanted()) return {1'000'000, 20'000, 40'000};
#ifdef WEFT_SANITIZE
  return {500, 50, 2'500};
#else
  return {2'000, 300, 2'500};
#endif
}

struct Exchange {
  std::atomic<int> pids[kSize]{};
};

// Processes that compute, as many as there are CPUs, until the object goes.
class Load {
 public:
  Load() {
    const int64_t until_ns = MonotonicNs() + 600'000'000'000;
    for (int i = 0; i < kLoaders; ++i) {
      const pid_t pid = fork();
      if (pid == 0) {
        while (MonotonicNs() < until_ns && getppid() != 1) {
        }
        _exit(0);
      }
      pids_.push_back(pid);
    }
  }

  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;

  ~Load() {
    for (const pid_t pid : pids_) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
  }

 private:
  static constexpr int kLoaders = 2;

  std::vector<pid_t> pids_;
};

std::string Reduce(ProcessGroup& group, int operations) {
  for (int i = 0; i < operations; ++i) {
    float sum = static_cast<float>(i % 100 + group.rank());
    Collective call{.kind = OpKind::kAllReduce, .dtype = WEFT_FLOAT32, .count = 1};
    call.in = call.out = &sum;
    if (const absl::Status status = group.Run(call); !status.ok()) {
      return "operation " + std::to_string(i) + ": " + Text(status);
    }
    const int want = kSize * (i % 100) + kSize * (kSize - 1) / 2;
    if (sum != static_cast<float>(want)) return "a wrong sum at operation " + std::to_string(i);
  }
  const absl::Status error = group.error();
  return error.ok() ? "" : Text(error);
}

// Some at a time, so that a rank does more in its turn than one of them.
std::string ReduceInWindows(ProcessGroup& group, int operations) {
  constexpr int kWindow = 25;
  for (int i = 0; i < operations; i += kWindow) {
    float sums[kWindow];
    std::vector<WorkRef> works;
    for (int k = 0; k < kWindow; ++k) {
      sums[k] = static_cast<float>(k + group.rank());
      Collective call{.kind = OpKind::kAllReduce, .dtype = WEFT_FLOAT32, .count = 1};
      call.in = call.out = &sums[k];
      absl::StatusOr<WorkRef> work = group.Start(call);
      if (!work.ok()) return Text(work.status());
      works.push_back(*std::move(work));
    }
    for (int k = 0; k < kWindow; ++k) {
      const absl::Status status = works[static_cast<size_t>(k)]->Wait(0);
      if (!status.ok()) return "operation " + std::to_string(i + k) + ": " + Text(status);
      const int want = kSize * k + kSize * (kSize - 1) / 2;
      if (sums[k] != static_cast<float>(want)) return "a wrong sum";
    }
  }
  const absl::Status error = group.error();
  return error.ok() ? "" : Text(error);
}

TEST(LivingRank, IsNotCalledDeadOnCrowdedCpus) {
  const Load load;
  const int operations = Wanted().operations;
  RunProcessRanks(
      kSize, [&](ProcessGroup& group) { return ReduceInWindows(group, operations); }, {}, kLimitS);
  std::printf("%d operations of %d ranks\n", operations, kSize);
}

TEST(LivingRank, IsNotCalledDeadWhileItIsStopped) {
  const Load load;
  const SharedValue<Exchange> exchange;
  RunProcessRanks(kSize, [&](ProcessGroup& group) -> std::string {
    SetLogCallback([](weft_log_level_t, const char*, void*) {},
                   nullptr);  // what is said is tested elsewhere
    exchange->pids[group.rank()] = getpid();
    if (std::string problem = Reduce(group, 100); !problem.empty()) return problem;
    if (group.rank() == 0) {
      const pid_t victim = exchange->pids[kVictim];
      const pid_t waker = fork();
      if (waker == 0) {
        kill(victim, SIGSTOP);
        poll(nullptr, 0, Wanted().stopped_ms);
        kill(victim, SIGCONT);
        _exit(0);
      }
      std::string problem = Reduce(group, 1000);
      waitpid(waker, nullptr, 0);
      return problem;
    }
    return Reduce(group, 1000);
  });
}

TEST(LivingRank, IsNotCalledDeadWithATwentiethOfACpu) {
  const RealCgroup cgroup("cpu", "cpu.cfs_quota_us", "cpu.max");
  const bool limited =
      cgroup.made() && (cgroup.version() == 1 ? cgroup.Write("cpu.cfs_quota_us", "5000")
                                              : cgroup.Write("cpu.max", "5000 100000"));
  if (!limited) GTEST_SKIP() << "no quota can be set here";
  const SharedValue<Exchange> exchange;
  RunProcessRanks(kSize, [&](ProcessGroup& group) -> std::string {
    SetLogCallback([](weft_log_level_t, const char*, void*) {}, nullptr);
    exchange->pids[group.rank()] = getpid();
    if (std::string problem = Reduce(group, 100); !problem.empty()) return problem;
    if (group.rank() == 0 && !cgroup.Take(exchange->pids[kVictim])) return "could not be limited";
    return Reduce(group, Wanted().starved_operations);
  });
}

}  // namespace
}  // namespace weft::test::false_death_test
