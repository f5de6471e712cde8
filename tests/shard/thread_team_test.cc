#include "shard/optimizer/thread_team.h"

#include <atomic>
#include <cfenv>
#include <csignal>
#include <numeric>
#include <set>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include "gtest/gtest.h"

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace weft::thread_team_test {
namespace {

#ifdef __has_feature
constexpr bool kThreadSanitizer = __has_feature(thread_sanitizer);
#else
constexpr bool kThreadSanitizer = false;
#endif

std::unique_ptr<ThreadTeam> Team(int size) {
  auto team = ThreadTeam::Start(size);
  EXPECT_TRUE(team.ok()) << team.status();
  return team.ok() ? *std::move(team) : nullptr;
}

TEST(ThreadTeam, DoesEveryPieceOnce) {
  for (const int size : {1, 2, 3, 7}) {
    const auto team = Team(size);
    EXPECT_EQ(team->size(), size);
    for (const size_t count : {0, 1, 2, 3, 6, 7, 8, 100, 1009}) {
      std::vector<int> done(count);  // no two threads touch the same element
      team->ForEach(count, [&](size_t piece, int member) {
        EXPECT_GE(member, 0);
        EXPECT_LT(member, size);
        ++done[piece];
      });
      EXPECT_EQ(done, std::vector<int>(count, 1)) << size << " threads";
    }
  }
}

// What members wrote, each to its own place, is there when a call returns; rounds follow each other closely.
TEST(ThreadTeam, ShowsWhatEveryMemberWrote) {
  const auto team = Team(3);
  for (int round = 0; round < 3000; ++round) {
    const size_t count = 1 + static_cast<size_t>(round % 9);
    std::vector<size_t> sums(3);
    team->ForEach(
        count, [&](size_t piece, int member) { sums[static_cast<size_t>(member)] += piece + 1; });
    ASSERT_EQ(std::accumulate(sums.begin(), sums.end(), size_t{0}), count * (count + 1) / 2);
  }
}

// Each piece waits for all the others: done only if every member has one.
TEST(ThreadTeam, WorksAtTheSameTime) {
  const auto team = Team(4);
  std::atomic<int> inside{0};
  EventCount waiters;
  std::vector<int> met(4);
  team->ForEach(4, [&](size_t piece, int) {
    inside.fetch_add(1, std::memory_order_seq_cst);
    NotifyAll(waiters);
    Deadline deadline{60'000'000'000};
    const auto all = [&] {
      return inside.load(std::memory_order_seq_cst) == 4;
    };
    met[piece] = WaitUntil(waiters, {}, deadline, all, [] { return false; }) == WaitResult::kReady;
  });
  EXPECT_EQ(met, std::vector<int>(4, 1));
}

TEST(ThreadTeam, EndsWithoutHavingWorked) {
  for (int i = 0; i < 50; ++i)
    (void)Team(5);
}

// Foreign programs flush denormals to zero; the numbers contract keeps them.
TEST(ThreadTeam, KeepsDenormals) {
#if defined(__SSE2__)
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | 0x8040);  // both results and operands
  const auto team = Team(3);
  std::vector<unsigned> seen(64);
  team->ForEach(seen.size(), [&](size_t piece, int) { seen[piece] = _mm_getcsr() & 0xffc0; });
  const unsigned after = _mm_getcsr();
  _mm_setcsr(before);
  EXPECT_EQ(seen, std::vector<unsigned>(64, 0x1f80));
  EXPECT_EQ(after & 0x8040, 0x8040u);  // the caller's own is given back
#endif
}

TEST(ThreadTeam, BlocksSignalsInItsThreads) {
  const auto team = Team(2);
  std::atomic<int> inside{0};
  EventCount waiters;
  std::vector<int> blocked(2, -1);
  team->ForEach(2, [&](size_t, int member) {
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    blocked[static_cast<size_t>(member)] = sigismember(&mask, SIGTERM);
    inside.fetch_add(1, std::memory_order_seq_cst);
    NotifyAll(waiters);
    Deadline deadline{60'000'000'000};
    const auto both = [&] {
      return inside.load(std::memory_order_seq_cst) == 2;
    };
    (void)WaitUntil(waiters, {}, deadline, both, [] { return false; });
  });
  EXPECT_EQ(blocked, (std::vector<int>{0, 1}));
}

// A child has no such threads: it does everything itself, and waits for nobody when it ends the team.
TEST(ThreadTeam, LeavesThreadsToTheParentOfAForkedChild) {
  if (kThreadSanitizer) GTEST_SKIP() << "its runtime does not know the parent's threads in a child";
  auto team = Team(3);
  team->ForEach(10, [](size_t, int) {});
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    size_t sum = 0;
    bool alone = true;
    team->ForEach(10, [&](size_t piece, int member) {
      sum += piece;
      alone = alone && member == 0;
    });
    team.reset();
    _exit(sum == 45 && alone ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  std::vector<int> done(100);
  team->ForEach(100, [&](size_t piece, int) { ++done[piece]; });
  EXPECT_EQ(done, std::vector<int>(100, 1));
}

}  // namespace
}  // namespace weft::thread_team_test
