// To take a living process for dead ends a job that runs, so Ended() says yes only with proof, and no single sign is proof
// in every case: a pid is given away again, a pipe is also closed by a process that lives on, and /proc may be that of another
// pid namespace. Each sign is used only for what it proves, and a number only together with a start time where one is known.
#include "base/proc.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/cgroup.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/new_fd.h"
#include "base/status.h"
#include "base/text.h"

namespace weft {
namespace {

// The fields of /proc/<pid>/stat that matter here.
struct Stat {
  char state = '?';
  uint64_t start_time = 0;
  int wait_status = 0;  // of a zombie
};

// `process`: its pid in /proc, or "self".
std::optional<Stat> ReadStat(std::string_view process) {
  const std::string text = ReadFileStart(StrCat("/proc/", process, "/stat"));
  // The name in parentheses may hold anything; the fields after its end start with the state, the
  // third of the line.
  const size_t end_of_name = text.rfind(')');
  if (end_of_name == std::string::npos) return std::nullopt;
  const std::vector<std::string> fields =
      absl::StrSplit(text.substr(end_of_name + 1), absl::ByAnyChar(" \n"), absl::SkipEmpty());
  constexpr size_t kStartTime = 22 - 3;
  constexpr size_t kExitCode = 52 - 3;
  Stat stat;
  if (fields.size() <= kExitCode || !absl::SimpleAtoi(fields[kStartTime], &stat.start_time) ||
      !absl::SimpleAtoi(fields[kExitCode], &stat.wait_status)) {
    return std::nullopt;
  }
  stat.state = fields[0][0];
  return stat;
}

std::optional<Stat> ReadStat(int32_t pid) {
  return ReadStat(std::to_string(pid));
}

// The pid of a pidfd's process in this process's /proc; 0 if it is not there or has been reaped.
int32_t PidOf(int pidfd) {
  const std::string text = ReadFileStart(StrCat("/proc/self/fdinfo/", pidfd));
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    int32_t pid = 0;
    if (line.substr(0, 4) == "Pid:" && absl::SimpleAtoi(line.substr(4), &pid)) {
      return std::max(pid, 0);
    }
  }
  return 0;
}

ExitInfo FromWaitStatus(int status) {
  if (WIFSIGNALED(status)) return {.signal = WTERMSIG(status), .exit_code = -1};
  if (WIFEXITED(status)) return {.signal = 0, .exit_code = WEXITSTATUS(status)};
  return {};
}

// The kernel's struct pidfd_info, first version, and its ioctl; older headers lack them.
struct PidfdInfo {
  uint64_t mask;
  uint64_t cgroup_id;
  uint32_t pid, tgid, ppid;
  uint32_t ruid, rgid, euid, egid, suid, sgid, fsuid, fsgid;
  int32_t exit_code;
};

static_assert(sizeof(PidfdInfo) == 64);
constexpr unsigned long kPidfdGetInfo = _IOWR(0xFF, 11, PidfdInfo);
constexpr uint64_t kPidfdInfoExit = 1 << 3;

std::optional<ExitInfo> ExitFromPidfd(int pidfd) {
  PidfdInfo info = {};
  info.mask = kPidfdInfoExit;
  if (ioctl(pidfd, kPidfdGetInfo, &info) < 0) return std::nullopt;
  if ((info.mask & kPidfdInfoExit) == 0) return std::nullopt;
  return FromWaitStatus(info.exit_code);
}

class SystemPeerProcess : public PeerProcess {
 public:
  // `pid`: in /proc, or 0. Without a lifeline: ended before we looked.
  SystemPeerProcess(int32_t pid, uint64_t start_time, Lifeline lifeline)
      : pid_(pid),
        start_time_(start_time),
        lifeline_(std::move(lifeline)),
        oom_kills_(pid > 0 ? OomKills("", std::to_string(pid)) : OomKills()) {}

  bool Ended() override {
    if (!lifeline_.fd.valid()) return true;
    pollfd item = {lifeline_.fd.get(), POLLIN, 0};
    int count;
    do {
      count = poll(&item, 1, 0);
    } while (count < 0 && errno == EINTR);
    if (count <= 0 || (item.revents & (POLLIN | POLLHUP)) == 0) return false;  // no proof
    // A pipe is closed a moment before /proc tells how the process ended; and by a process that closes what it has not
    // opened, which lives on.
    return lifeline_.kind == Lifeline::Kind::kPidfd || pid_ == 0 || !Lives(ReadStat(pid_));
  }

  ExitInfo Exit() override {
    ExitInfo how = HowItEnded();
    if (how.signal == SIGKILL) how.oom_kills = oom_kills_.Since();
    return how;
  }

  // The state is read by number, so it is the process's only if that still is there afterwards.
  ProcessState State() override {
    if (Ended()) return ProcessState::kEnded;
    if (pid_ <= 0) return ProcessState::kNotKnown;
    const ProcessState state = ReadProcessState("", pid_);
    return IsIt(ReadStat(pid_)) ? state : ProcessState::kNotKnown;
  }

  int32_t visible_pid() const override { return pid_; }

  int fd() const override { return lifeline_.fd.get(); }

 private:
  // A zombie tells through /proc, a reaped process through its pidfd. It may be reaped between the
  // two looks, hence the pidfd last.
  ExitInfo HowItEnded() const {
    const std::optional<Stat> stat = pid_ > 0 ? ReadStat(pid_) : std::nullopt;
    if (IsIt(stat) && !Lives(stat)) return FromWaitStatus(stat->wait_status);
    if (lifeline_.fd.valid() && lifeline_.kind == Lifeline::Kind::kPidfd) {
      if (const std::optional<ExitInfo> info = ExitFromPidfd(lifeline_.fd.get())) return *info;
    }
    return {};
  }

  // Not a younger process that got the number.
  bool IsIt(const std::optional<Stat>& stat) const {
    return stat && (start_time_ == 0 || stat->start_time == start_time_);
  }

  bool Lives(const std::optional<Stat>& stat) const {
    return IsIt(stat) && stat->state != 'Z' && stat->state != 'X';
  }

  const int32_t pid_;
  const uint64_t start_time_;
  const Lifeline lifeline_;
  const OomKills oom_kills_;
};

}  // namespace

std::string OomKillText(uint64_t oom_kills) {
  return StrCat("its memory cgroup's oom_kill counter rose by ", oom_kills,
                ", so the kernel most likely ended it for want of memory");
}

std::string ExitInfo::ToString() const {
  if (signal > 0) {
    return StrCat("killed by signal ", signal,
                  oom_kills == 0 ? "" : StrCat(" (", OomKillText(oom_kills), ")"));
  }
  if (signal == 0) return StrCat("exited with code ", exit_code);
  return "ended, how is not known";
}

ProcessIdentity SystemProc::Self() {
  ProcessIdentity self;
  self.pid = getpid();
  // By no number: /proc may be of another pid namespace than this process.
  if (const std::optional<Stat> stat = ReadStat("self")) self.start_time = stat->start_time;
  utsname names = {};
  if (uname(&names) == 0) self.host = names.nodename;
  self.boot_id = ReadFirstLine("/proc/sys/kernel/random/boot_id");
  return self;
}

absl::StatusOr<std::unique_ptr<PeerProcess>> SystemProc::Open(int32_t pid, uint64_t start_time) {
  if (pid <= 0) {
    return MakeError(WEFT_INVALID_ARGUMENT, StrCat("could not watch process ", pid, ": no pid"));
  }
  UniqueFd pidfd = OpenProcess(pid);
  if (!pidfd.valid() && errno != ESRCH) {
    return RefusedCallError(errno, "pidfd_open", StrCat("could not watch process ", pid));
  }
  // The pidfd holds on to whatever had the pid when it was opened; if that is a younger process, the
  // peer is gone.
  const std::optional<Stat> stat = ReadStat(pid);
  if (pidfd.valid() && stat && start_time != 0 && stat->start_time != start_time) pidfd.Reset();
  return std::make_unique<SystemPeerProcess>(pid, start_time, Lifeline{std::move(pidfd)});
}

// A pidfd says which number its process has here. With a pipe, the number that the process itself has is good if
// what has it here began when it did. Start times are not compared with what a process says of itself where that can be helped:
// its clock may be another one.
absl::StatusOr<std::unique_ptr<PeerProcess>> SystemProc::Watch(Lifeline lifeline, int32_t pid,
                                                               uint64_t start_time) {
  if (!lifeline.fd.valid()) {
    return MakeError(WEFT_INVALID_ARGUMENT,
                     StrCat("could not watch process ", pid, ": it sent no descriptor"));
  }
  const bool by_pidfd = lifeline.kind == Lifeline::Kind::kPidfd;
  const int32_t visible_pid = by_pidfd ? PidOf(lifeline.fd.get()) : pid;
  const std::optional<Stat> stat = visible_pid > 0 ? ReadStat(visible_pid) : std::nullopt;
  const bool found = stat && (by_pidfd || stat->start_time == start_time);
  return std::make_unique<SystemPeerProcess>(found ? visible_pid : 0, found ? stat->start_time : 0,
                                             std::move(lifeline));
}

}  // namespace weft
