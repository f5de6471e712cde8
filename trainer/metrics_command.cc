#include "trainer/metrics_command.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace weft::trainer {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view kFolderVariable = "WEFT_RUN_DIR=";
constexpr std::chrono::milliseconds kLookEvery{5};  // while it is waited for

constexpr const char* kSeeOutput = "see what it printed";
constexpr const char* kReadToTheEnd = "let it read until its standard input ends";

// As it is in any folder that the command changes to.
std::string AbsolutePath(const std::string& directory) {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::absolute(directory, error);
  return error ? directory : path.string();
}

std::vector<std::string> EnvironmentWith(const std::string& directory) {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; variable++) {
    if (!std::string_view(*variable).starts_with(kFolderVariable))
      variables.emplace_back(*variable);
  }
  variables.push_back(std::string(kFolderVariable) + AbsolutePath(directory));
  return variables;
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (std::string& text : texts)
    pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Starts the command on `input` in a process group of its own; returns 0 or an errno. It blocks no
// signals, as the trainer does, and SIGPIPE does to it what it does to any program.
int Spawn(const std::string& command, const std::string& directory, int input, pid_t& pid) {
  std::vector<std::string> words = {"/bin/sh", "-c", command};
  std::vector<std::string> variables = EnvironmentWith(directory);
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
  posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
  sigset_t blocked, by_default;
  sigemptyset(&blocked);
  sigemptyset(&by_default);
  sigaddset(&by_default, SIGPIPE);
  posix_spawnattr_setsigmask(&attributes, &blocked);
  posix_spawnattr_setsigdefault(&attributes, &by_default);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  const int error = posix_spawn(&pid, words[0].c_str(), &actions, &attributes,
                                Pointers(words).data(), Pointers(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  return error;
}

// A write to a pipe that nobody reads sends SIGPIPE to the thread that writes. It is held up and
// taken back, so that it means to the rest of the process what it did.
int WriteWithoutSigpipe(WaitingRecords& records, int fd) {
  sigset_t sigpipe, before, pending;
  sigemptyset(&sigpipe);
  sigaddset(&sigpipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &sigpipe, &before);
  sigpending(&pending);
  const int error = records.WriteTo(fd);
  if (error == EPIPE && sigismember(&pending, SIGPIPE) == 0) {
    const timespec at_once = {};
    while (sigtimedwait(&sigpipe, nullptr, &at_once) < 0 && errno == EINTR) {
    }
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return error;
}

std::string Text(std::chrono::milliseconds time) {
  return fmt::format("{} s", std::chrono::duration<double>(time).count());
}

}  // namespace

MetricsCommand::MetricsCommand(const std::string& command, const std::string& directory,
                               const CommandPatience& patience)
    : patience_(patience) {
  Start(command, directory);
}

MetricsCommand::~MetricsCommand() {
  if (input_ >= 0) Give();
  CloseInput();
  if (pid_ > 0) waitpid(pid_, nullptr, WNOHANG);  // one that has not ended is not waited for
}

void MetricsCommand::Start(const std::string& command, const std::string& directory) {
  std::array<int, 2> ends = {-1, -1};
  int error = pipe2(ends.data(), O_CLOEXEC) == 0 ? 0 : errno;
  if (error == 0) {
    input_ = ends[1];
    // That of the trainer's end alone: the command's own reads wait for lines.
    fcntl(input_, F_SETFL, O_NONBLOCK);
    error = Spawn(command, directory, ends[0], pid_);
    close(ends[0]);
  }
  if (error == 0) return;
  pid_ = -1;
  CloseInput();
  Fail(fmt::format("could not be started: {}", std::strerror(error)),
       "raise the limits of open files and of processes (ulimit -n, ulimit -u)");
}

void MetricsCommand::Append(const std::string& line) {
  if (pid_ > 0 && HasEnded()) TakeStatus();
  if (pid_ > 0 && input_ < 0 && Clock::now() >= closed_at_ + patience_.until_named)
    Fail("has closed its standard input", kReadToTheEnd);
  lines_.Add(line);
  Give();
}

void MetricsCommand::Give() {
  if (input_ < 0) return lines_.GiveUp();
  const int error = WriteWithoutSigpipe(lines_, input_);
  if (error != 0 && error != EAGAIN) return CloseInput();
  NoteRead();
  if (lines_.lost() > 0 && found_.empty()) {
    Fail(fmt::format("reads so slowly that more than {} MiB waited for it",
                     WaitingRecords::kBytesMax >> 20),
         "let it do less for each line");
  }
}

// What the pipe still has was not read.
void MetricsCommand::NoteRead() {
  int unread = 0;
  if (ioctl(input_, FIONREAD, &unread) == 0) lines_.Confirm(size_t(unread));
}

void MetricsCommand::CloseInput() {
  if (input_ < 0) return;
  NoteRead();
  lines_.GiveUp();
  close(std::exchange(input_, -1));
  closed_at_ = Clock::now();
}

bool MetricsCommand::HasEnded() const {
  siginfo_t info = {};
  int result = 0;
  do {
    result = waitid(P_PID, id_t(pid_), &info, WEXITED | WNOHANG | WNOWAIT);
  } while (result < 0 && errno == EINTR);
  return result < 0 || info.si_pid != 0;
}

bool MetricsCommand::EndsBy(Clock::time_point deadline) const {
  while (!HasEnded()) {
    if (Clock::now() >= deadline) return false;
    poll(nullptr, 0, int(kLookEvery.count()));
  }
  return true;
}

void MetricsCommand::TakeStatus() {
  CloseInput();
  int status = 0;
  const bool known = waitpid(std::exchange(pid_, -1), &status, WNOHANG) > 0;
  if (!known) {
    Fail("has ended, with what code is not known as SIGCHLD is ignored", kSeeOutput);
  } else if (WIFSIGNALED(status)) {
    const char* name = sigabbrev_np(WTERMSIG(status));
    Fail(fmt::format("was killed by signal {} (SIG{})", WTERMSIG(status), name ? name : "?"),
         kSeeOutput);
  } else if (WEXITSTATUS(status) != 0) {
    Fail(fmt::format("exited with code {}", WEXITSTATUS(status)), kSeeOutput);
  } else if (found_.empty() && (!finishing_ || lines_.lacking() > 0)) {
    Fail("exited with code 0 before the end of its standard input", kReadToTheEnd);
  }
}

void MetricsCommand::Finish() {
  finishing_ = true;
  const Clock::time_point deadline = Clock::now() + patience_.until_asked;
  // Once it has read all lines its input ends; not before, since what is left in a pipe without a
  // writer nobody can count.
  while (input_ >= 0 && lines_.lacking() > lines_.lost() && !HasEnded() &&
         Clock::now() < deadline) {
    pollfd pipe = {input_, short(lines_.AllWritten() ? 0 : POLLOUT), 0};
    poll(&pipe, 1, int(kLookEvery.count()));
    (pipe.revents & POLLERR) != 0 ? CloseInput() : Give();
  }
  CloseInput();
  if (pid_ <= 0) return;
  if (EndsBy(deadline)) return TakeStatus();
  End();
}

void MetricsCommand::End() {
  Fail(fmt::format("was ended as it still ran {} after the run", Text(patience_.until_asked)),
       "let it end when its standard input does");
  kill(-pid_, SIGTERM);
  EndsBy(Clock::now() + patience_.until_killed);
  // Also what it has started and SIGTERM has not ended. The shell's number is nobody else's yet.
  kill(-pid_, SIGKILL);
  // One that the kernel cannot end, as a disk does not answer it, is left.
  if (EndsBy(Clock::now() + patience_.until_killed)) waitpid(pid_, nullptr, WNOHANG);
  pid_ = -1;
}

void MetricsCommand::Fail(std::string found, const char* advice) {
  found_ = std::move(found);
  advice_ = advice;
}

std::string MetricsCommand::Unwritten() const {
  if (found_.empty()) return "";
  const size_t count = lines_.lacking();
  std::string lacks;
  if (count > 0)
    lacks = fmt::format(" and lacks {} line{} of metrics.jsonl", count, count == 1 ? "" : "s");
  return fmt::format("the command of --metrics-command {}{}; {}", found_, lacks, advice_);
}

}  // namespace weft::trainer
