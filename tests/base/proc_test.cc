#include "base/proc.h"

#include <csignal>
#include <cstring>

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/wait.h"
#include "tests/support/real_cgroup.h"

namespace weft::proc_test {
namespace {

// A child that ends as told once `go` is closed.
struct Child {
  int pid = -1;
  int go = -1;

  static Child Start(int signal, int exit_code) {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    const int pid = fork();
    if (pid == 0) {
      close(ends[1]);
      char byte;
      while (read(ends[0], &byte, 1) > 0) {
      }
      if (signal != 0) raise(signal);
      _exit(exit_code);
    }
    close(ends[0]);
    return {pid, ends[1]};
  }

  void End() { close(go); }
};

bool AwaitEnd(PeerProcess& peer) {
  pollfd item = {peer.fd(), POLLIN, 0};
  return poll(&item, 1, 10'000) == 1 && peer.Ended();
}

TEST(Proc, KnowsItself) {
  const ProcessIdentity self = SystemProc().Self();
  EXPECT_EQ(self.pid, getpid());
  EXPECT_GT(self.start_time, 0u);
  EXPECT_FALSE(self.host.empty());
  EXPECT_EQ(self.boot_id.size(), 36u);
}

TEST(Proc, AZombieTellsHowItEnded) {
  struct Case {
    int signal;
    int exit_code;
  };

  for (const Case& how : {Case{SIGKILL, 0}, Case{SIGTERM, 0}, Case{0, 0}, Case{0, 7}}) {
    SystemProc proc;
    Child child = Child::Start(how.signal, how.exit_code);
    auto peer = proc.Open(child.pid, 0);
    ASSERT_TRUE(peer.ok()) << peer.status();
    EXPECT_FALSE((*peer)->Ended());
    child.End();
    ASSERT_TRUE(AwaitEnd(**peer));
    const ExitInfo info = (*peer)->Exit();
    EXPECT_EQ(info.signal, how.signal);
    if (how.signal == 0) {
      EXPECT_EQ(info.exit_code, how.exit_code);
    }
    waitpid(child.pid, nullptr, 0);
  }
}

TEST(Proc, AReapedProcessTellsThroughItsPidfdOrSaysThatItIsNotKnown) {
  SystemProc proc;
  Child child = Child::Start(SIGKILL, 0);
  auto peer = proc.Open(child.pid, 0);
  ASSERT_TRUE(peer.ok());
  child.End();
  waitpid(child.pid, nullptr, 0);
  EXPECT_TRUE((*peer)->Ended());
  const ExitInfo info = (*peer)->Exit();
  EXPECT_TRUE(info.signal == SIGKILL || info.signal == -1) << info.ToString();
}

TEST(Proc, AStoppedProcessHasNotEnded) {
  SystemProc proc;
  Child child = Child::Start(0, 0);
  auto peer = proc.Open(child.pid, 0);
  ASSERT_TRUE(peer.ok());
  kill(child.pid, SIGSTOP);
  siginfo_t info = {};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child.pid), &info, WSTOPPED), 0);
  EXPECT_FALSE((*peer)->Ended());
  kill(child.pid, SIGKILL);
  child.End();
  waitpid(child.pid, nullptr, 0);
}

TEST(Proc, AGoneOrReusedPidHasEnded) {
  SystemProc proc;
  Child child = Child::Start(0, 0);
  child.End();
  waitpid(child.pid, nullptr, 0);
  auto gone = proc.Open(child.pid, 0);
  ASSERT_TRUE(gone.ok());
  EXPECT_TRUE((*gone)->Ended());
  EXPECT_EQ((*gone)->Exit().ToString(), "ended, how is not known");
  // Our own pid with somebody else's start time.
  auto reused = proc.Open(getpid(), SystemProc().Self().start_time + 1);
  ASSERT_TRUE(reused.ok());
  EXPECT_TRUE((*reused)->Ended());
  EXPECT_FALSE(proc.Open(0, 0).ok());
  EXPECT_FALSE(proc.Open(-1, 0).ok());
}

TEST(Proc, AnEndForWantOfMemoryIsToldFromOtherKills) {
  const RealCgroup group("memory", "memory.oom_control", "memory.events");
  if (!group.made() || !group.LimitMemory(size_t{24} << 20)) {
    GTEST_SKIP() << "no memory can be limited here";
  }
  SystemProc proc;
  for (const bool greedy : {false, true}) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const int pid = fork();
    if (pid == 0) {
      close(ends[1]);
      char byte;
      while (read(ends[0], &byte, 1) > 0) {
      }
      constexpr size_t kBytes = size_t{256} << 20;
      void* const memory =
          mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (greedy && memory != MAP_FAILED) std::memset(memory, 1, kBytes);
      raise(SIGKILL);
    }
    close(ends[0]);
    const bool taken = group.Take(pid);
    const auto peer = proc.Open(pid, 0);
    ASSERT_TRUE(peer.ok());
    close(ends[1]);
    ASSERT_TRUE(AwaitEnd(**peer));
    const ExitInfo info = (*peer)->Exit();
    waitpid(pid, nullptr, 0);
    if (!taken) GTEST_SKIP() << "no process can be put into a control group here";
    EXPECT_EQ(info.signal, SIGKILL);
    EXPECT_EQ(info.oom_kills, greedy ? 1U : 0U);
    EXPECT_EQ(info.ToString(),
              greedy ? "killed by signal 9 (its memory cgroup's oom_kill counter rose by 1, so the "
                       "kernel most likely ended it for want of memory)"
                     : "killed by signal 9");
  }
}

}  // namespace
}  // namespace weft::proc_test
