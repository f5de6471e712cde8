// What a process does: by files as the kernel writes them, and of real processes as far as this machine lets a test hold
// them.
#include "base/process_state.h"

#include <csignal>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/proc.h"
#include "base/wait.h"
#include "tests/base/machine_of_files.h"
#include "tests/support/real_cgroup.h"

namespace weft::process_state_test {
namespace {

class ProcessStateTest : public MachineOfFiles {
 protected:
  ProcessState Of(const std::string& state, const std::string& more = "") {
    Write("/proc/42/status",
          "Name:\ta) State: T\nUmask:\t0022\nState:\t" + state + "\n" + more + "Threads:\t1\n");
    return ReadProcessState(root_, 42);
  }
};

TEST_F(ProcessStateTest, IsThatOfItsLetter) {
  EXPECT_EQ(ReadProcessState(root_, 42), ProcessState::kNotKnown);
  EXPECT_EQ(Of("R (running)"), ProcessState::kRunning);
  EXPECT_EQ(Of("S (sleeping)"), ProcessState::kSleeping);
  EXPECT_EQ(Of("D (disk sleep)"), ProcessState::kUninterruptible);
  EXPECT_EQ(Of("T (stopped)"), ProcessState::kStopped);
  EXPECT_EQ(Of("t (tracing stop)"), ProcessState::kTraced);
  EXPECT_EQ(Of("Z (zombie)"), ProcessState::kNotKnown);  // its first thread has ended, no more
  EXPECT_EQ(Of("?"), ProcessState::kNotKnown);
  EXPECT_EQ(Of(""), ProcessState::kNotKnown);
}

TEST_F(ProcessStateTest, TellsACoreDumpFromASystemCall) {
  EXPECT_EQ(Of("D (disk sleep)", "CoreDumping:\t1\n"), ProcessState::kDumpingCore);
  EXPECT_EQ(Of("R (running)", "CoreDumping:\t1\n"), ProcessState::kDumpingCore);
  EXPECT_EQ(Of("D (disk sleep)", "CoreDumping:\t0\n"), ProcessState::kUninterruptible);
}

TEST_F(ProcessStateTest, TellsAFrozenProcessByEitherVersion) {
  Write("/proc/42/cgroup", "6:freezer:/a/b\n0::/\n");
  Write("/sys/fs/cgroup/freezer/a/b/freezer.state", "THAWED\n");
  EXPECT_EQ(Of("D (disk sleep)"), ProcessState::kUninterruptible);
  Write("/sys/fs/cgroup/freezer/a/b/freezer.state", "FROZEN\n");
  EXPECT_EQ(Of("D (disk sleep)"), ProcessState::kFrozen);
  EXPECT_EQ(Of("T (stopped)"), ProcessState::kStopped);
  Write("/proc/42/cgroup", "6:freezer:/\n0::/a/b\n");
  EXPECT_EQ(Of("S (sleeping)"), ProcessState::kSleeping);
  for (const char* mount : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}) {
    Write(std::string(mount) + "/a/b/cgroup.events", "populated 1\nfrozen 1\n");
    EXPECT_EQ(Of("S (sleeping)"), ProcessState::kFrozen) << mount;
    Write(std::string(mount) + "/a/b/cgroup.events", "populated 1\nfrozen 0\n");
    EXPECT_EQ(Of("S (sleeping)"), ProcessState::kSleeping) << mount;
    std::filesystem::remove_all(root_ + mount + "/a");
  }
}

TEST(ProcessState, StalledIsWhoDoesNothingByItself) {
  struct Case {
    ProcessState state;
    bool stalled;
    const char* text;
    char letter;
  };

  for (const Case& c :
       {Case{ProcessState::kNotKnown, false, "in a state that is not known", '?'},
        Case{ProcessState::kRunning, false, "running", 'R'},
        Case{ProcessState::kSleeping, false, "sleeping", 'S'},
        Case{ProcessState::kUninterruptible, true, "in an uninterruptible system call", 'D'},
        Case{ProcessState::kStopped, true, "stopped", 'T'},
        Case{ProcessState::kTraced, true, "stopped by a debugger", 't'},
        Case{ProcessState::kFrozen, true, "frozen by its cgroup", '?'},
        Case{ProcessState::kDumpingCore, true, "writing a core dump", '?'},
        Case{ProcessState::kEnded, false, "ended", 'Z'}}) {
    EXPECT_STREQ(ProcessStateText(c.state), c.text);
    EXPECT_EQ(IsStalled(c.state), c.stalled) << c.text;
    EXPECT_EQ(IsHeld(c.state), c.stalled && c.letter != 'D') << c.text;
    EXPECT_EQ(ProcessStateLetter(c.state), c.letter) << c.text;
  }
}

// A child that sleeps until it is killed.
class Sleeper {
 public:
  Sleeper() : pid_(fork()) {
    if (pid_ != 0) return;
    while (true)
      pause();
  }

  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;

  ~Sleeper() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

  pid_t pid() const { return pid_; }

 private:
  const pid_t pid_;
};

bool Becomes(PeerProcess& process, ProcessState state) {
  const int64_t begun_ns = MonotonicNs();
  while (process.State() != state) {
    if (MonotonicNs() - begun_ns > 20'000'000'000) return false;
    poll(nullptr, 0, 1);
  }
  return true;
}

TEST(PeerProcess, SaysWhatItDoes) {
  SystemProc proc;
  const Sleeper child;
  const auto peer = proc.Open(child.pid(), 0);
  ASSERT_TRUE(peer.ok()) << peer.status();
  EXPECT_TRUE(Becomes(**peer, ProcessState::kSleeping));
  kill(child.pid(), SIGSTOP);
  EXPECT_TRUE(Becomes(**peer, ProcessState::kStopped));
  kill(child.pid(), SIGCONT);
  EXPECT_TRUE(Becomes(**peer, ProcessState::kSleeping));
  if (ptrace(PTRACE_ATTACH, child.pid(), nullptr, nullptr) == 0) {
    EXPECT_TRUE(Becomes(**peer, ProcessState::kTraced));
    waitpid(child.pid(), nullptr, __WALL);
    EXPECT_EQ(ptrace(PTRACE_DETACH, child.pid(), nullptr, nullptr), 0);
    EXPECT_TRUE(Becomes(**peer, ProcessState::kSleeping));
  }
  kill(child.pid(), SIGKILL);
  EXPECT_TRUE(Becomes(**peer, ProcessState::kEnded));
}

TEST(PeerProcess, OfAnotherStartTimeIsNotAskedWhatItDoes) {
  SystemProc proc;
  const auto peer = proc.Open(getpid(), proc.Self().start_time);
  ASSERT_TRUE(peer.ok());
  EXPECT_EQ((*peer)->State(), ProcessState::kRunning);
  const auto younger = proc.Open(getpid(), proc.Self().start_time + 1);
  ASSERT_TRUE(younger.ok());
  EXPECT_EQ((*younger)->State(), ProcessState::kEnded);
}

TEST(PeerProcess, IsFrozenWithItsGroup) {
  const RealCgroup group("freezer", "freezer.state", "cgroup.freeze");
  if (!group.made()) GTEST_SKIP() << "no control groups can be made here";
  SystemProc proc;
  const Sleeper child;
  const auto peer = proc.Open(child.pid(), 0);
  ASSERT_TRUE(peer.ok());
  if (!group.Take(child.pid())) GTEST_SKIP() << "no process can be put into a control group here";
  EXPECT_TRUE(Becomes(**peer, ProcessState::kSleeping));
  ASSERT_TRUE(group.Freeze(true));
  EXPECT_TRUE(Becomes(**peer, ProcessState::kFrozen));
  EXPECT_FALSE((*peer)->Ended());
  ASSERT_TRUE(group.Freeze(false));
  EXPECT_TRUE(Becomes(**peer, ProcessState::kSleeping));
}

}  // namespace
}  // namespace weft::process_state_test
