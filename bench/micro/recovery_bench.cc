// How long ranks take to go on without one that was killed: from SIGKILL to the first all_reduce of those that live.
//
//   recovery_bench [RANKS] [ROUNDS]      // 8 ranks, 20 rounds; one JSON object on standard output
//
// Every round forks RANKS processes that make a group and reduce 8 bytes again and again, and kills one, another one in each round.
// It is killed while the others wait for it in an all_reduce ("waiting"), or in the middle of the loop, at a time drawn by the round
// ("calling"). Times are since the kill, of the slowest rank: its call has failed, it has the new group, its first all_reduce has
// ended. Medians and the extremes of the rounds.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "weft/weft.h"

#include "bench/micro/timed_calls.h"

using weft::Check;
using weft::NowNs;

namespace {

constexpr int kRanksMax = 64;
constexpr int kWarmUpCalls = 100;
constexpr int kStages = 3;
constexpr std::array<const char*, kStages> kStageNames = {"failed_ms", "reconfigured_ms",
                                                          "all_reduced_ms"};
constexpr unsigned kStuckS = 30;

using Moments = std::array<int64_t, kStages>;

struct Case {
  const char* name;
  bool victim_calls;
};

constexpr std::array<Case, 2> kCases = {{{"waiting", false}, {"calling", true}}};

weft_result_t Reduce(weft_group_t group) {
  double value = 1;
  return weft_all_reduce(&value, &value, 1, WEFT_FLOAT64, WEFT_SUM, group, nullptr, nullptr);
}

[[noreturn]] void RunRank(const weft_unique_id_t& id, int ranks, int rank, bool stays_away,
                          int ready, int done) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  alarm(kStuckS);
  weft_group_t group = nullptr;
  Check(weft_group_create_from_id(&id, ranks, rank, nullptr, &group));
  for (int call = 0; call < kWarmUpCalls; ++call)
    Check(Reduce(group));
  if (write(ready, "r", 1) != 1) _exit(1);
  if (stays_away) pause();
  while (Reduce(group) == WEFT_SUCCESS) {
  }
  Moments moments{};
  moments[0] = NowNs();
  Check(weft_group_reconfigure(group, nullptr, 0, nullptr));
  moments[1] = NowNs();
  Check(Reduce(group));
  moments[2] = NowNs();
  const bool written = write(done, &moments, sizeof(moments)) == sizeof(moments);
  Check(weft_barrier(group, nullptr, nullptr));
  Check(weft_group_destroy(group));
  _exit(written ? 0 : 1);
}

void Fail(const char* what) {
  std::fprintf(stderr, "recovery_bench: %s\n", what);
  std::exit(1);
}

// Since the kill, the slowest rank's.
Moments RunRound(int ranks, int victim, bool victim_calls, int delay_us) {
  weft_unique_id_t id;
  Check(weft_unique_id_create(&id));
  int ready[2];
  int done[2];
  if (pipe(ready) != 0 || pipe(done) != 0) Fail("no pipe");
  std::vector<pid_t> pids;
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t pid = fork();
    if (pid < 0) Fail("no process");
    if (pid == 0) RunRank(id, ranks, rank, rank == victim && !victim_calls, ready[1], done[1]);
    pids.push_back(pid);
  }
  close(ready[1]);
  close(done[1]);
  char byte = 0;
  for (int rank = 0; rank < ranks; ++rank)
    if (read(ready[0], &byte, 1) != 1) Fail("a rank failed before the kill");
  usleep(static_cast<useconds_t>(delay_us));
  const int64_t killed_ns = NowNs();
  kill(pids[static_cast<size_t>(victim)], SIGKILL);
  Moments slowest{};
  Moments moments;
  for (int rank = 0; rank + 1 < ranks; ++rank) {
    if (read(done[0], &moments, sizeof(moments)) != sizeof(moments)) Fail("a rank failed");
    for (size_t stage = 0; stage < kStages; ++stage)
      slowest[stage] = std::max(slowest[stage], moments[stage] - killed_ns);
  }
  for (int rank = 0; rank < ranks; ++rank)
    wait(nullptr);
  close(ready[0]);
  close(done[0]);
  return slowest;
}

void Print(const Case& one, std::vector<Moments> rounds, const char* end) {
  std::printf("  \"%s\": {", one.name);
  for (size_t stage = 0; stage < kStages; ++stage) {
    std::sort(rounds.begin(), rounds.end(),
              [stage](const Moments& a, const Moments& b) { return a[stage] < b[stage]; });
    const auto ms = [&](size_t index) {
      return static_cast<double>(rounds[index][stage]) * 1e-6;
    };
    std::printf("%s\"%s\": {\"median\": %.3f, \"min\": %.3f, \"max\": %.3f}",
                stage == 0 ? "" : ", ", kStageNames[stage], ms(rounds.size() / 2), ms(0),
                ms(rounds.size() - 1));
  }
  std::printf("}%s\n", end);
}

}  // namespace

int main(int argc, char** argv) {
  const int ranks = argc > 1 ? std::atoi(argv[1]) : 8;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 20;
  if (argc > 3 || ranks < 2 || ranks > kRanksMax || rounds < 1) {
    std::fprintf(stderr, "usage: recovery_bench [RANKS 2..%d] [ROUNDS]\n", kRanksMax);
    return 2;
  }
  std::array<std::vector<Moments>, kCases.size()> found;
  for (int round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < kCases.size(); ++i) {
      // Long enough for the others to wait, asleep, and another time in each round.
      const int delay_us = 20'000 + round * 7919 % 10'000;
      found[i].push_back(RunRound(ranks, round % ranks, kCases[i].victim_calls, delay_us));
    }
  }
  std::printf("{\n  \"version\": 1, \"ranks\": %d, \"rounds\": %d,\n", ranks, rounds);
  for (size_t i = 0; i < kCases.size(); ++i)
    Print(kCases[i], found[i], i + 1 == kCases.size() ? "" : ",");
  std::printf("}\n");
}
