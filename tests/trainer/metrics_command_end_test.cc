// Commands that read metrics and end: at the end of the run, before, with a failure, or never.
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <poll.h>

#include "tests/trainer/command_folder.h"
#include "trainer/metrics_command.h"

namespace weft::trainer::metrics_command_end_test {
namespace {

using Clock = std::chrono::steady_clock;

using MetricsCommandEndTest = CommandFolder;

constexpr CommandPatience kShortPatience = {.until_asked = std::chrono::milliseconds(200),
                                            .until_killed = kCommandDeadline};

// Whether it runs; one that has ended may wait for whoever adopts it to take its status.
bool Runs(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string number, name, state;
  stat >> number >> name >> state;
  return !state.empty() && state != "Z";
}

TEST_F(MetricsCommandEndTest, OneThatEndsEarlyIsNamedWhileTheRunGoesOn) {
  MetricsCommand command("read line; exit 0", directory_.string(), kLongPatience);
  command.Append("one\n");
  WaitForEnd();
  const std::string found =
      "the command of --metrics-command exited with code 0 before the end of its standard input "
      "and lacks ";
  const std::string advice = " of metrics.jsonl; let it read until its standard input ends";
  command.Append("two\n");
  EXPECT_EQ(command.Unwritten(), found + "1 line" + advice);
  command.Append("three\n");
  command.Finish();
  EXPECT_EQ(command.Unwritten(), found + "2 lines" + advice);
}

// A script that has died of an exception, say.
TEST_F(MetricsCommandEndTest, OneThatFailsIsNamedWithItsCodeAndTheLinesThatItLacks) {
  MetricsCommand command("read line; exit 3", directory_.string(), kLongPatience);
  command.Append("one\n");
  command.Append("two\n");
  WaitForEnd();
  command.Append("three\n");
  EXPECT_EQ(command.Unwritten(),
            "the command of --metrics-command exited with code 3 and lacks 2 lines of "
            "metrics.jsonl; see what it printed");
  command.Finish();
  EXPECT_NE(command.Unwritten(), "");
}

TEST_F(MetricsCommandEndTest, OneThatReadsAllAndFailsHasFailed) {
  MetricsCommand command("cat >/dev/null; exit 4", directory_.string(), kLongPatience);
  command.Append("line\n");
  command.Finish();
  EXPECT_EQ(command.Unwritten(),
            "the command of --metrics-command exited with code 4; see what it printed");
}

TEST_F(MetricsCommandEndTest, OneThatIsKilledIsNamedWithTheSignal) {
  MetricsCommand command("kill -9 $$", directory_.string(), kLongPatience);
  WaitForEnd();
  command.Append("line\n");
  EXPECT_EQ(command.Unwritten(),
            "the command of --metrics-command was killed by signal 9 (SIGKILL) and lacks 1 line "
            "of metrics.jsonl; see what it printed");
}

TEST_F(MetricsCommandEndTest, OneThatIsNotThereHasTheCodeOfTheShell) {
  MetricsCommand command("weft-no-such-command 2>/dev/null", directory_.string(), kLongPatience);
  command.Finish();
  EXPECT_EQ(command.Unwritten(),
            "the command of --metrics-command exited with code 127; see what it printed");
}

// What is in the pipe was not read, though it was written.
TEST_F(MetricsCommandEndTest, OneThatEndsWellWithoutTheLastLineHasNotGotIt) {
  MetricsCommand command("read line; echo >\"$WEFT_RUN_DIR/read\"", directory_.string(),
                         kLongPatience);
  command.Append("one\n");
  command.Append("two\n");
  command.Append("three\n");
  command.Finish();
  EXPECT_EQ(command.Unwritten(),
            "the command of --metrics-command exited with code 0 before the end of its standard "
            "input and lacks 2 lines of metrics.jsonl; let it read until its standard input ends");
}

TEST_F(MetricsCommandEndTest, OneThatReadsTheLastLineAndEndsIsFine) {
  MetricsCommand command("read one; read two; echo \"$one $two\" >\"$WEFT_RUN_DIR/got\"",
                         directory_.string(), kLongPatience);
  command.Append("one\n");
  command.Append("two\n");
  command.Finish();
  EXPECT_EQ(command.Unwritten(), "");
  EXPECT_EQ(Read("got"), "one two\n");
}

TEST_F(MetricsCommandEndTest, OneThatNeverEndsIsEndedAtTheDeadline) {
  // It cleans up when it is asked to end.
  MetricsCommand command(
      "cd \"$WEFT_RUN_DIR\"; trap 'echo >asked; exit 0' TERM; echo >ready; "
      "while :; do sleep 0.01; done",
      directory_.string(), kShortPatience);
  ASSERT_TRUE(Comes("ready"));
  command.Append("line\n");
  const auto before = Clock::now();
  command.Finish();
  EXPECT_GE(Clock::now() - before, kShortPatience.until_asked);
  EXPECT_LT(Clock::now() - before, kCommandDeadline);
  EXPECT_EQ(command.Unwritten(),
            "the command of --metrics-command was ended as it still ran 0.2 s after the run and "
            "lacks 1 line of metrics.jsonl; let it end when its standard input does");
  EXPECT_TRUE(std::filesystem::exists(directory_ / "asked"));
}

TEST_F(MetricsCommandEndTest, OneThatIgnoresSigtermIsKilledWithWhatItHasStarted) {
  constexpr std::chrono::milliseconds kMoment{100};
  MetricsCommand command(
      "cd \"$WEFT_RUN_DIR\"; trap '' TERM; read line; sleep 1000 & echo $! >new; mv new child; "
      "wait",
      directory_.string(), {.until_asked = kMoment, .until_killed = kMoment});
  command.Append("line\n");
  ASSERT_TRUE(Comes("child"));
  command.Finish();
  EXPECT_EQ(command.Unwritten(),
            "the command of --metrics-command was ended as it still ran 0.1 s after the run; let "
            "it end when its standard input does");
  const pid_t child = pid_t(std::stol(Read("child")));
  const auto deadline = Clock::now() + kCommandDeadline;
  while (Runs(child) && Clock::now() < deadline)
    poll(nullptr, 0, 1);
  EXPECT_LT(Clock::now(), deadline);
}

}  // namespace
}  // namespace weft::trainer::metrics_command_end_test
