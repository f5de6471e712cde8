// Runs a rank in a pid namespace of its own, as a container does.
//
//   if (const std::string why = WhyNoPidNamespace(OwnProc::kYes); !why.empty()) GTEST_SKIP() << why;
//   RunForkedRanks(4, 60, [&](int rank) {
//     return InPidNamespace(OwnProc::kNo, [&]() -> std::string { ...getpid() == 1...; return ""; });
//   });
//
// The calling process must not have other threads. What the body returns is returned; a body that says kKillMe
// (SayKillMe()) is killed from outside, since the first process of a namespace cannot kill itself.
#pragma once

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <functional>
#include <string>

#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

namespace weft::test {

// Whether /proc is the namespace's own, or stays that of the namespace above.
enum class OwnProc { kNo, kYes };

namespace pid_namespace_internal {

inline int& report_pipe() {
  static int pipe = -1;
  return pipe;
}

// Joins new namespaces, of users too unless this is root; "" or why not. The next child is in them.
inline std::string Unshare(OwnProc own_proc) {
  const uid_t user = geteuid();
  const gid_t group = getegid();
  int flags = CLONE_NEWPID;
  if (own_proc == OwnProc::kYes) flags |= CLONE_NEWNS;
  if (user != 0) flags |= CLONE_NEWUSER;
  if (unshare(flags) != 0) return std::string("unshare: ") + std::strerror(errno);
  if (user == 0) return "";
  std::ofstream("/proc/self/setgroups") << "deny";
  std::ofstream("/proc/self/uid_map") << "0 " << user << " 1";
  std::ofstream("/proc/self/gid_map") << "0 " << group << " 1";
  return geteuid() == 0 ? "" : "writing /proc/self/uid_map failed";
}

inline std::string MountProc() {
  if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      mount("proc", "/proc", "proc", 0, nullptr) != 0) {
    return std::string("mounting /proc: ") + std::strerror(errno);
  }
  return "";
}

}  // namespace pid_namespace_internal

// In a body: does not return.
[[noreturn]] inline void SayKillMe() {
  const char byte = 0;
  (void)!write(pid_namespace_internal::report_pipe(), &byte, 1);
  while (true)
    pause();
}

inline std::string InPidNamespace(OwnProc own_proc, const std::function<std::string()>& body) {
  namespace internal = pid_namespace_internal;
  if (const std::string why = internal::Unshare(own_proc); !why.empty()) return why;
  int ends[2];
  if (pipe(ends) != 0) return "pipe failed";
  const pid_t child = fork();
  if (child < 0) return std::string("fork: ") + std::strerror(errno);
  if (child == 0) {
    close(ends[0]);
    internal::report_pipe() = ends[1];
    std::string said = own_proc == OwnProc::kYes ? internal::MountProc() : "";
    if (said.empty()) said = body();
    (void)!write(ends[1], said.data(), said.size());
    _exit(
        0);  // a leak checker would look for its threads in /proc, by numbers of another namespace
  }
  close(ends[1]);
  std::string said;
  bool killed = false;
  char buffer[4096];
  for (ssize_t count = 0; (count = read(ends[0], buffer, sizeof(buffer))) != 0;) {
    if (count < 0 && errno != EINTR) break;
    if (count > 0) said.append(buffer, static_cast<size_t>(count));
    if (said == std::string(1, 0) && !killed) {
      killed = true;
      kill(child, SIGKILL);
    }
  }
  close(ends[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (killed) return "";
  if (WIFSIGNALED(status)) return "killed by signal " + std::to_string(WTERMSIG(status));
  return said;
}

// "" or why this system has no namespaces for a test.
inline std::string WhyNoPidNamespace(OwnProc own_proc) {
  int ends[2];
  if (pipe(ends) != 0) return "pipe failed";
  const pid_t child = fork();
  if (child == 0) {
    const std::string why = InPidNamespace(own_proc, []() -> std::string { return ""; });
    (void)!write(ends[1], why.data(), why.size());
    _exit(0);
  }
  close(ends[1]);
  std::string why;
  char buffer[512];
  for (ssize_t count = 0; (count = read(ends[0], buffer, sizeof(buffer))) > 0;)
    why.append(buffer, static_cast<size_t>(count));
  close(ends[0]);
  waitpid(child, nullptr, 0);
  return why;
}

}  // namespace weft::test
