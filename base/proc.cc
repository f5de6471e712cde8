#include "base/proc.h"

#include <cerrno>
#include <csignal>
#include <optional>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "base/fd.h"
#include "base/status.h"
#include "base/text.h"

namespace weft {
namespace {

// Small files of /proc; "" if it cannot be read.
std::string ReadSmallFile(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return "";
  char buffer[4096];
  size_t size = 0;
  while (size < sizeof(buffer)) {
    const ssize_t count = read(fd.get(), buffer + size, sizeof(buffer) - size);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    size += static_cast<size_t>(count);
  }
  return std::string(buffer, size);
}

// The fields of /proc/<pid>/stat that matter here.
struct Stat {
  char state = '?';
  uint64_t start_time = 0;
  int wait_status = 0;  // of a zombie
};

std::optional<Stat> ReadStat(int32_t pid) {
  const std::string text = ReadSmallFile(StrCat("/proc/", pid, "/stat"));
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
  // Without a pidfd: ended before we looked.
  SystemPeerProcess(int32_t pid, uint64_t start_time, UniqueFd pidfd)
      : pid_(pid), start_time_(start_time), pidfd_(std::move(pidfd)) {}

  bool Ended() override {
    if (!pidfd_.valid()) return true;
    pollfd item = {pidfd_.get(), POLLIN, 0};
    int count;
    do {
      count = poll(&item, 1, 0);
    } while (count < 0 && errno == EINTR);
    return count > 0;
  }

  // A zombie tells through /proc, a reaped process through its pidfd. It may be reaped between the
  // two looks, hence the pidfd last.
  ExitInfo Exit() override {
    const std::optional<Stat> stat = ReadStat(pid_);
    const bool same = stat && (start_time_ == 0 || stat->start_time == start_time_);
    if (same && (stat->state == 'Z' || stat->state == 'X')) {
      return FromWaitStatus(stat->wait_status);
    }
    if (pidfd_.valid()) {
      if (const std::optional<ExitInfo> info = ExitFromPidfd(pidfd_.get())) return *info;
    }
    return {};
  }

  int fd() const override { return pidfd_.get(); }

 private:
  const int32_t pid_;
  const uint64_t start_time_;
  const UniqueFd pidfd_;
};

}  // namespace

std::string ExitInfo::ToString() const {
  if (signal > 0) return StrCat("killed by signal ", signal);
  if (signal == 0) return StrCat("exited with code ", exit_code);
  return "ended, how is not known";
}

ProcessIdentity SystemProc::Self() {
  ProcessIdentity self;
  self.pid = getpid();
  if (const std::optional<Stat> stat = ReadStat(self.pid)) self.start_time = stat->start_time;
  utsname names = {};
  if (uname(&names) == 0) self.host = names.nodename;
  self.boot_id = ReadSmallFile("/proc/sys/kernel/random/boot_id");
  while (!self.boot_id.empty() && self.boot_id.back() == '\n')
    self.boot_id.pop_back();
  return self;
}

absl::StatusOr<std::unique_ptr<PeerProcess>> SystemProc::Open(int32_t pid, uint64_t start_time) {
  if (pid <= 0) {
    return MakeError(WEFT_INVALID_ARGUMENT, StrCat("could not watch process ", pid, ": no pid"));
  }
  UniqueFd pidfd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!pidfd.valid() && errno != ESRCH) {
    return SystemError(errno, StrCat("could not watch process ", pid));
  }
  // The pidfd holds on to whatever had the pid when it was opened; if that is a younger process, the
  // peer is gone.
  const std::optional<Stat> stat = ReadStat(pid);
  if (pidfd.valid() && stat && start_time != 0 && stat->start_time != start_time) pidfd.Reset();
  return std::make_unique<SystemPeerProcess>(pid, start_time, std::move(pidfd));
}

}  // namespace weft
