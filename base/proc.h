// Processes as facts: who this one is, whether another one has ended, and how.
//
//   WEFT_ASSIGN_OR_RETURN(std::unique_ptr<PeerProcess> peer, proc.Watch(lifeline, pid, start_time));
//   if (peer->Ended()) { ExitInfo how = peer->Exit(); ... }
//   if (IsStalled(peer->State())) ...   // it lives, but does nothing
//
// A pid is a number of one pid namespace: in another one it is somebody else or nobody. So who may be of another one is
// watched by what it sent of itself (lifeline.h), and looked up in /proc only by the number that it has there.
//
// Thread-safety: SystemProc from any thread; a PeerProcess from one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/lifeline.h"
#include "base/process_state.h"

namespace weft {

struct ProcessIdentity {
  int32_t pid = 0;
  uint64_t start_time = 0;  // field 22 of /proc/<pid>/stat: tells a reused pid
  std::string host;
  std::string boot_id;
};

// How a process ended; -1 is "not known", as in ErrorFields.
struct ExitInfo {
  int32_t signal = -1;  // 0: it exited by itself
  int32_t exit_code = -1;
  // Of one that was killed by signal 9: by how much the oom_kill counter of its memory cgroup has risen since it was watched;
  // 0 also if that cannot be read.
  uint64_t oom_kills = 0;

  // "killed by signal 9", "exited with code 1", "ended, how is not known"; what the counter says in parentheses.
  std::string ToString() const;
};

// What a risen oom_kill counter means for a process that was killed by signal 9: "its memory cgroup's oom_kill counter rose by 1,
// so the kernel most likely ended it for want of memory". Others of the group are counted too, so it is not sure.
std::string OomKillText(uint64_t oom_kills);

class PeerProcess {
 public:
  virtual ~PeerProcess() = default;
  // True once the process has ended, reaped or not. Stopped and starved processes have not.
  virtual bool Ended() = 0;
  // Meaningful once Ended(). Known while its parent has not reaped it, and afterwards on Linux 6.15
  // and later; of a process of this pid namespace or of one below it.
  virtual ExitInfo Exit() = 0;
  // What it does. Reads files: for waits that take long.
  virtual ProcessState State() = 0;
  // Its pid in this process's /proc; 0 if it is not there.
  virtual int32_t visible_pid() const = 0;
  // Ready once the process has ended; -1 if there is none (ended before Open, or simulated).
  virtual int fd() const = 0;
};

class Proc {
 public:
  virtual ~Proc() = default;
  virtual ProcessIdentity Self() = 0;
  // Watches a process of this pid namespace. A pid that is gone or belongs to a younger process is
  // not an error: that peer has ended. start_time 0: do not compare.
  virtual absl::StatusOr<std::unique_ptr<PeerProcess>> Open(int32_t pid, uint64_t start_time) = 0;
  // Watches a process of any pid namespace by what it sent of itself; `pid` and `start_time` as it knows them.
  virtual absl::StatusOr<std::unique_ptr<PeerProcess>> Watch(Lifeline lifeline, int32_t pid,
                                                             uint64_t start_time) = 0;
};

class SystemProc : public Proc {
 public:
  ProcessIdentity Self() override;
  absl::StatusOr<std::unique_ptr<PeerProcess>> Open(int32_t pid, uint64_t start_time) override;
  absl::StatusOr<std::unique_ptr<PeerProcess>> Watch(Lifeline lifeline, int32_t pid,
                                                     uint64_t start_time) override;
};

}  // namespace weft
