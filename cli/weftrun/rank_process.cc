#include "cli/weftrun/rank_process.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/new_fd.h"
#include "base/pages.h"
#include "base/status.h"
#include "base/text.h"

namespace weft {
namespace {

constexpr int kNotFound = 127;
constexpr int kNotExecutable = 126;

// What a child writes to its parent if it does not become the program.
struct StartFailure {
  int error = 0;
  bool binding = false;  // it was about the CPUs, not the program
};

[[noreturn]] void GiveUp(int pipe, const StartFailure& failure, int exit_code) {
  if (write(pipe, &failure, sizeof failure) != sizeof failure) _exit(kNotExecutable);
  _exit(exit_code);
}

bool Bind(const CpuSet& cpus) {
  const std::vector<uint64_t>& words = cpus.words();
  return cpus.empty() || sched_setaffinity(0, words.size() * sizeof(words[0]),
                                           reinterpret_cast<const cpu_set_t*>(words.data())) == 0;
}

// Everything between fork and exec. Reports errno through `failure` if it does not get there.
[[noreturn]] void Execute(const RankSpec& spec, const std::vector<char*>& arguments, pid_t parent,
                          int failure) {
  setpgid(0, 0);
  if (!Bind(spec.cpus)) GiveUp(failure, {.error = errno, .binding = true}, kNotExecutable);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(kNotExecutable);  // weftrun ended before the line above
  if (spec.rank != 0 || isatty(0)) {
    const UniqueFd null = OpenFile("/dev/null", O_RDONLY);
    if (null.valid()) dup2(null.get(), 0);
  }
  fcntl(0, F_SETFD, 0);  // /dev/null, if weftrun began without it
  dup2(spec.stdout_fd, 1);
  dup2(spec.stderr_fd, 2);
  if (spec.secret_fd >= 0) fcntl(spec.secret_fd, F_SETFD, 0);
  for (const std::string& name : spec.unset)
    unsetenv(name.c_str());
  for (const auto& [name, value] : spec.variables)
    setenv(name.c_str(), value.c_str(), 1);
  for (const auto& [name, value] : spec.defaults)
    setenv(name.c_str(), value.c_str(), 0);
  signal(SIGPIPE, SIG_DFL);
  sigprocmask(SIG_SETMASK, &spec.signal_mask, nullptr);
  execvp(arguments[0], arguments.data());
  GiveUp(failure, {.error = errno}, kNotFound);
}

bool IsDirectory(const std::string& path) {
  struct stat info = {};
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

// A name without a slash was looked for in PATH, and nowhere else.
absl::Status ExplainExecError(const std::string& program, int error) {
  const std::string what = StrCat("starting ", program);
  const bool in_path = program.find('/') == std::string::npos;
  if (in_path && error == ENOENT) {
    std::string_view here;
    if (access(program.c_str(), F_OK) == 0)
      here = "; there is a file of this name here, start it with ./";
    if (IsDirectory(program)) here = "; the one here is a directory";
    return MakeError(WEFT_SYSTEM_ERROR, StrCat(what, ": no such program in PATH", here));
  }
  if (!in_path && IsDirectory(program)) {
    return MakeError(WEFT_SYSTEM_ERROR, StrCat(what, ": it is a directory, not a program"));
  }
  if (error == ENOENT && access(program.c_str(), F_OK) == 0) {
    return Annotate(SystemError(error, "its interpreter (first line, or ELF loader)"),
                    StrCat(what, ": "));
  }
  if (error == E2BIG) {
    rlimit limit = {};
    getrlimit(RLIMIT_STACK, &limit);
    const std::string stack =
        limit.rlim_cur == RLIM_INFINITY ? "unlimited" : FormatBytes(limit.rlim_cur);
    return Annotate(SystemError(error, what),
                    StrCat("its arguments and environment, to which weftrun adds variables, may "
                           "have a quarter of the stack, and 128 KiB at least (ulimit -s is ",
                           stack, "): "));
  }
  return SystemError(error, what);
}

}  // namespace

absl::StatusOr<pid_t> SpawnRank(const RankSpec& spec) {
  std::vector<char*> arguments;
  for (const std::string& word : spec.program)
    arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  PipeEnds ends = MakePipe();
  if (!ends.valid()) return SystemError(errno, "making a pipe to a new rank");
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) return SystemError(errno, StrCat("starting a process for rank ", spec.rank));
  if (pid == 0) Execute(spec, arguments, parent, ends.write.get());
  setpgid(pid, pid);  // in both processes, so that neither runs on before it is done
  ends.write.Reset();
  // exec closes the other end: end of file means that the program runs.
  StartFailure failure;
  ssize_t n = 0;
  do {
    n = read(ends.read.get(), &failure, sizeof failure);
  } while (n < 0 && errno == EINTR);
  if (n != sizeof failure) return pid;
  while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  if (failure.binding) {
    return SystemError(failure.error,
                       StrCat("binding rank ", spec.rank, " to CPUs ", spec.cpus.ToList()));
  }
  const absl::Status status = ExplainExecError(spec.program[0], failure.error);
  const ErrorFields fields{.exit_code = failure.error == ENOENT ? kNotFound : kNotExecutable};
  return MakeError(ResultOf(status), fields, FromAbsl(status.message()));
}

}  // namespace weft
