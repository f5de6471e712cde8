// Commands that read metrics: what they get, from which process, and how fast.
#include "trainer/metrics_command.h"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/trainer/command_folder.h"

namespace weft::trainer::metrics_command_test {
namespace {

using Clock = std::chrono::steady_clock;

using MetricsCommandTest = CommandFolder;

std::string Line(size_t step) {
  return "{\"step\":" + std::to_string(step) + ",\"loss\":" + std::string(step % 300, '1') + "}\n";
}

std::atomic<int> sigpipes = 0;

void CountSigpipe(int) {
  sigpipes++;
}

TEST_F(MetricsCommandTest, ItGetsEveryLineByteForByte) {
  MetricsCommand command("cat >\"$WEFT_RUN_DIR/got\"", directory_.string(), kLongPatience);
  std::string all;
  for (size_t step = 1; step <= 500; step++) {
    all += Line(step);
    command.Append(Line(step));
  }
  const std::string odd("no newline, \0 and \xff", 19);
  command.Append(odd);
  all += odd;
  command.Finish();
  EXPECT_EQ(command.Unwritten(), "");
  EXPECT_EQ(Read("got"), all);
}

TEST_F(MetricsCommandTest, TheFolderIsAnAbsolutePathAndTheRestOfTheEnvironmentIsThere) {
  setenv("WEFT_RUN_DIR", "another", 1);
  const std::filesystem::path relative = std::filesystem::relative(directory_);
  MetricsCommand command("cd /; echo \"$WEFT_RUN_DIR $PATH\" >\"$WEFT_RUN_DIR/got\"; cat",
                         relative.string(), kLongPatience);
  unsetenv("WEFT_RUN_DIR");
  command.Finish();
  EXPECT_EQ(command.Unwritten(), "");
  EXPECT_EQ(Read("got"),
            (std::filesystem::current_path() / relative).string() + " " + getenv("PATH") + "\n");
}

TEST_F(MetricsCommandTest, ASlowReaderLosesNothingAndHoldsUpNobody) {
  // Opening a FIFO waits for the other end: the command reads nothing before that.
  const std::string gate = directory_ / "gate";
  ASSERT_EQ(mkfifo(gate.c_str(), 0600), 0);
  MetricsCommand command("cd \"$WEFT_RUN_DIR\"; read go <gate; cat >got", directory_.string(),
                         kLongPatience);
  std::string all;
  for (size_t step = 1; all.size() < 8 << 20; step++) {
    all += Line(step);
    command.Append(Line(step));  // would wait for ever if it did
  }
  EXPECT_EQ(command.Unwritten(), "");
  std::ofstream(gate) << "go\n";
  command.Finish();
  EXPECT_EQ(command.Unwritten(), "");
  EXPECT_TRUE(Read("got") == all);
}

TEST_F(MetricsCommandTest, OneThatIsTooSlowIsNamedAtOnceAndGoesOnReading) {
  const std::string gate = directory_ / "gate";
  ASSERT_EQ(mkfifo(gate.c_str(), 0600), 0);
  MetricsCommand command("cd \"$WEFT_RUN_DIR\"; read go <gate; cat >got", directory_.string(),
                         kLongPatience);
  const std::string line(1 << 20, 'x');
  for (int i = 0; i < 20; i++)
    command.Append(line);
  // 16 wait, and of the first one a part is in the pipe.
  const std::string found =
      "the command of --metrics-command reads so slowly that more than 16 MiB waited for it and "
      "lacks ";
  const std::string advice = " of metrics.jsonl; let it do less for each line";
  EXPECT_EQ(command.Unwritten(), found + "20 lines" + advice);
  std::ofstream(gate) << "go\n";
  command.Finish();
  EXPECT_EQ(command.Unwritten(), found + "3 lines" + advice);
  EXPECT_EQ(Read("got").size(), 17u << 20);
}

TEST_F(MetricsCommandTest, OneThatClosesItsInputIsNamedThoughItGoesOn) {
  MetricsCommand command("cd \"$WEFT_RUN_DIR\"; mkfifo gate; exec <&-; read go <gate",
                         directory_.string(), kLongPatience);
  ASSERT_TRUE(Comes("gate"));
  const std::string found =
      "the command of --metrics-command has closed its standard input and lacks ";
  const std::string advice = " of metrics.jsonl; let it read until its standard input ends";
  size_t lines = 0;
  for (const auto deadline = Clock::now() + kCommandDeadline;
       command.Unwritten().empty() && Clock::now() < deadline; lines++) {
    command.Append("line\n");
  }
  EXPECT_GE(lines, 2u);
  EXPECT_EQ(command.Unwritten(), found + std::to_string(lines) + " lines" + advice);
  std::ofstream(directory_ / "gate") << "go\n";
  command.Finish();
  EXPECT_EQ(command.Unwritten(), found + std::to_string(lines) + " lines" + advice);
}

TEST_F(MetricsCommandTest, SigpipeIsWhatItWasToTheRestOfTheProcess) {
  struct sigaction counting = {}, before = {}, during = {};
  counting.sa_handler = CountSigpipe;
  ASSERT_EQ(sigaction(SIGPIPE, &counting, &before), 0);
  MetricsCommand command("exec <&-; echo >\"$WEFT_RUN_DIR/closed\"; sleep 1000",
                         directory_.string(),
                         {.until_asked = {}, .until_killed = kCommandDeadline, .until_named = {}});
  ASSERT_TRUE(Comes("closed"));
  for (int i = 0; i < 3; i++)
    command.Append("line\n");
  EXPECT_NE(command.Unwritten(), "");
  EXPECT_EQ(sigpipes, 0);
  // Nothing is left pending, nothing blocked, and nothing was set.
  sigset_t pending, blocked;
  sigpending(&pending);
  pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  EXPECT_EQ(sigismember(&pending, SIGPIPE), 0);
  EXPECT_EQ(sigismember(&blocked, SIGPIPE), 0);
  sigaction(SIGPIPE, nullptr, &during);
  EXPECT_EQ(during.sa_handler, CountSigpipe);
  int ends[2] = {};
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  close(ends[0]);
  EXPECT_EQ(write(ends[1], "x", 1), -1);
  EXPECT_EQ(errno, EPIPE);
  close(ends[1]);
  EXPECT_EQ(sigpipes, 1);
  command.Finish();
  sigaction(SIGPIPE, &before, nullptr);
}

// One that ends closes its input before: it is named by how it ended.
TEST_F(MetricsCommandTest, OneThatHasJustClosedItsInputIsNotNamedYet) {
  CommandPatience patience = kLongPatience;
  patience.until_named = kCommandDeadline;
  MetricsCommand command(
      "cd \"$WEFT_RUN_DIR\"; mkfifo gate; exec <&-; echo >closed; read go <gate; exit 3",
      directory_.string(), patience);
  ASSERT_TRUE(Comes("closed"));
  for (int i = 0; i < 3; i++)
    command.Append("line\n");
  EXPECT_EQ(command.Unwritten(), "");
  std::ofstream(directory_ / "gate") << "go\n";
  command.Finish();
  EXPECT_EQ(command.Unwritten(),
            "the command of --metrics-command exited with code 3 and lacks 3 lines of "
            "metrics.jsonl; see what it printed");
}

// One that the process had blocked, and that came from elsewhere, is still there.
TEST_F(MetricsCommandTest, ASigpipeThatWasPendingStaysSo) {
  sigset_t sigpipe, before, pending;
  sigemptyset(&sigpipe);
  sigaddset(&sigpipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &sigpipe, &before);
  raise(SIGPIPE);
  MetricsCommand command("exec </dev/null; echo >\"$WEFT_RUN_DIR/closed\"; cat",
                         directory_.string(), kLongPatience);
  ASSERT_TRUE(Comes("closed"));
  for (int i = 0; i < 2; i++)
    command.Append("line\n");
  EXPECT_NE(command.Unwritten(), "");  // of the pipe that nobody reads
  sigpending(&pending);
  EXPECT_EQ(sigismember(&pending, SIGPIPE), 1);
  const timespec at_once = {};
  EXPECT_EQ(sigtimedwait(&sigpipe, nullptr, &at_once), SIGPIPE);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

TEST_F(MetricsCommandTest, ItHasAGroupOfItsOwnNoFilesOfOursAndBlocksNoSignals) {
  constexpr int kOurs = 77;
  ASSERT_EQ(dup2(STDERR_FILENO, kOurs), kOurs);  // not closed by exec
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  MetricsCommand command(
      "cd \"$WEFT_RUN_DIR\"; cut -d ' ' -f 5 /proc/$$/stat >group; echo $$ >pid; "
      "ls /proc/$$/fd | tr '\\n' ' ' >files; grep SigBlk /proc/self/status >blocked; cat",
      directory_.string(), kLongPatience);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  close(kOurs);
  command.Finish();
  EXPECT_EQ(command.Unwritten(), "");
  EXPECT_EQ(Read("group"), Read("pid"));
  EXPECT_EQ(Read("blocked"), "SigBlk:\t0000000000000000\n");
  EXPECT_EQ(Read("files").substr(0, 6), "0 1 2 ");
  EXPECT_EQ(Read("files").find(std::to_string(kOurs)), std::string::npos) << Read("files");
}

// Of a run that fails: what the pipe takes, and the end.
TEST_F(MetricsCommandTest, OneThatIsNotFinishedReadsWhatThereWas) {
  {
    MetricsCommand command("cd \"$WEFT_RUN_DIR\"; cat >new; mv new got", directory_.string());
    command.Append("one\n");
    command.Append("two\n");
  }
  ASSERT_TRUE(Comes("got"));
  EXPECT_EQ(Read("got"), "one\ntwo\n");
  EXPECT_GT(waitpid(-1, nullptr, 0), 0);  // which nobody has waited for
}

}  // namespace
}  // namespace weft::trainer::metrics_command_test
