// Sees to it that no process of a rank outlives weftrun, even if weftrun is killed with SIGKILL.
//
// A rank itself dies with weftrun by PR_SET_PDEATHSIG, but not what it started. So a small process
// waits for the end of a pipe that only weftrun holds open, and then kills the process groups that
// weftrun told it about.
//
//   WEFT_ASSIGN_OR_RETURN(ProcessGuard guard, ProcessGuard::Start());   // before any rank
//   guard.Add(pid);  ...  guard.Remove(pid);   // before pid is reaped
//
// Thread-safety: one thread. The destructor ends the guard and reaps it.
#pragma once

#include <sys/types.h>

#include "absl/status/statusor.h"
#include "base/fd.h"

namespace weft {

class ProcessGuard {
 public:
  static absl::StatusOr<ProcessGuard> Start();
  ProcessGuard(ProcessGuard&&) = default;
  ProcessGuard& operator=(ProcessGuard&&) = delete;
  ~ProcessGuard();

  void Add(pid_t group) { Tell(group); }

  void Remove(pid_t group) { Tell(-group); }

 private:
  ProcessGuard(pid_t pid, UniqueFd pipe) : pid_(pid), pipe_(std::move(pipe)) {}

  void Tell(pid_t group);

  pid_t pid_;
  UniqueFd pipe_;
};

}  // namespace weft
