// RunProcesses of ranks.h. The children exist before the library is used for the first time; the
// parent makes the job id afterwards and hands it to each through a pipe, so no child inherits a
// library thread or a lock.
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <vector>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/weft_perf/measure.h"
#include "bench/weft_perf/ranks.h"

namespace weft::perf {
namespace {

// From the first failure until the rest is ended: enough for the library to report a lost peer.
constexpr double kGraceSeconds = 5;

struct Child {
  pid_t pid = -1;
  int id_pipe = -1;  // the parent's end
  bool running = true;
};

bool ReadId(int pipe, weft_unique_id_t* id) {
  size_t have = 0;
  while (have < sizeof(*id)) {
    const ssize_t got = read(pipe, id->internal + have, sizeof(*id) - have);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    have += static_cast<size_t>(got);
  }
  return true;
}

[[noreturn]] void BeChild(const Options& options, int process, int pipe, pid_t parent,
                          const sigset_t& former_signals, const RankBody& body) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(static_cast<int>(ExitCode::kInternal));
  sigprocmask(SIG_SETMASK, &former_signals, nullptr);
  weft_unique_id_t id = {};
  // Without an id the parent failed, and has said so.
  ExitCode code = ExitCode::kInternal;
  if (ReadId(pipe, &id)) code = RunFromId(options, id, process, options.processes, body);
  close(pipe);
  std::fflush(nullptr);
  _exit(static_cast<int>(code));
}

class Family {
 public:
  explicit Family(const Options& options) : options_(options) {}

  ~Family() {
    for (const Child& child : children_) {
      if (child.id_pipe >= 0) close(child.id_pipe);
    }
  }

  Outcome Fork(const sigset_t& former_signals, const RankBody& body);
  Outcome SendId();
  void KillAll();
  ExitCode WaitForAll(const sigset_t& child_signal);

 private:
  void Collect(size_t process, int status);
  bool AnyRunning() const;

  const Options& options_;
  std::vector<Child> children_;
  ExitCode worst_ = ExitCode::kOk;
  bool killed_ = false;
};

Outcome Family::Fork(const sigset_t& former_signals, const RankBody& body) {
  const pid_t self = getpid();
  for (int process = 0; process < options_.processes; ++process) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
      return Fail(ExitCode::kInternal,
                  Printf("no pipe for process %d: %s", process, std::strerror(errno)));
    }
    const pid_t pid = fork();
    if (pid == 0) {
      close(ends[1]);
      BeChild(options_, process, ends[0], self, former_signals, body);
    }
    close(ends[0]);
    if (pid < 0) {
      close(ends[1]);
      return Fail(ExitCode::kInternal, Printf("cannot start process %d of %d: %s", process,
                                              options_.processes, std::strerror(errno)));
    }
    children_.push_back({pid, ends[1], true});
  }
  return {};
}

Outcome Family::SendId() {
  weft_unique_id_t id = {};
  if (Outcome o = Called("making a job id", weft_unique_id_create(&id)); !o.ok()) return o;
  for (Child& child : children_) {
    // Fits into an empty pipe, so it neither blocks nor stops half-way; a dead child shows in wait.
    static_cast<void>(!write(child.id_pipe, id.internal, sizeof(id)));
    close(child.id_pipe);
    child.id_pipe = -1;
  }
  return {};
}

void Family::KillAll() {
  for (const Child& child : children_) {
    if (child.running) kill(child.pid, SIGKILL);
  }
  killed_ = true;
}

bool Family::AnyRunning() const {
  return std::any_of(children_.begin(), children_.end(),
                     [](const Child& child) { return child.running; });
}

void Family::Collect(size_t process, int status) {
  children_[process].running = false;
  if (WIFEXITED(status)) {
    worst_ = std::max(worst_, static_cast<ExitCode>(WEXITSTATUS(status)));
    return;
  }
  if (killed_) return;
  std::fprintf(stderr, "%s: process %zu (pid %d) was ended by signal %d (%s)\n",
               options_.program.c_str(), process, static_cast<int>(children_[process].pid),
               WTERMSIG(status), strsignal(WTERMSIG(status)));
  worst_ = std::max(worst_, ExitCode::kInternal);
}

ExitCode Family::WaitForAll(const sigset_t& child_signal) {
  double end = 0;  // 0: nothing failed yet
  while (AnyRunning()) {
    for (size_t process = 0; process < children_.size(); ++process) {
      int status = 0;
      if (children_[process].running && waitpid(children_[process].pid, &status, WNOHANG) > 0) {
        Collect(process, status);
      }
    }
    if (!AnyRunning()) break;
    if (worst_ != ExitCode::kOk && end == 0) end = Seconds() + kGraceSeconds;
    if (end != 0 && Seconds() >= end && !killed_) {
      std::fprintf(stderr, "%s: ending the processes that are left\n", options_.program.c_str());
      KillAll();
    }
    // Woken by a child's end; the limit only serves the deadline above.
    const timespec limit = {1, 0};
    sigtimedwait(&child_signal, nullptr, &limit);
  }
  return worst_;
}

}  // namespace

ExitCode RunProcesses(const Options& options, const RankBody& body) {
  sigset_t child_signal;
  sigset_t former_signals;
  sigemptyset(&child_signal);
  sigaddset(&child_signal, SIGCHLD);
  sigprocmask(SIG_BLOCK, &child_signal, &former_signals);
  std::fflush(nullptr);
  Family family(options);
  Outcome outcome = family.Fork(former_signals, body);
  if (outcome.ok()) outcome = family.SendId();
  const ExitCode code = Tell(options, outcome);
  if (!outcome.ok()) family.KillAll();
  return std::max(code, family.WaitForAll(child_signal));
}

}  // namespace weft::perf
