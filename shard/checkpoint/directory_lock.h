// One job at a time saves in a directory of checkpoints: another one is refused, and told who does. The lock of an owner that has ended is taken
// over. Readers need none.
//
//   const LockSighting seen = LookAtLock(files, root, now_ns);            // early: what is seen twice tells whether its owner lives
//   WEFT_ASSIGN_OR_RETURN(std::unique_ptr<DirectoryLock> lock, DirectoryLock::Take(files, proc, patience, {.root = root, .self = ThisProcess(...), ...}));
//   WEFT_RETURN_IF_ERROR(lock->Check());                                  // before each save, and before each commit
//
// Without locks of the kernel, which many file systems of networks lack: by calls of which one caller alone succeeds. lock.json
// is a second name (link) of a file with the owner's text. Who takes it over from an owner that has ended first gives its own file the name
// lock-<token of that owner>.next, which one can have, then replaces lock.json, and removes the other name. If it ends between the two,
// the next one takes over from it in the same way. What a call has come to is read back each time, as a call that fails may have been done.
//
// An owner has ended if its process on this machine has, or belongs to this job; else if it has not beaten (lock_beat.h) for kLockPatienceNs by the
// clock of who looks. An owner that was only stopped for so long finds at its next Check() that it has lost the lock, and saves no more.
//
// Thread-safety: one thread at a time, beside the thread of its LockBeat.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/files.h"
#include "base/proc.h"
#include "shard/checkpoint/lock_beat.h"
#include "shard/checkpoint/lock_owner.h"
#include "shard/checkpoint/patience.h"

namespace weft {

inline constexpr int64_t kLockPatienceNs = 60'000'000'000;

// Whose the lock was, and how often it had beaten, the first time that it was seen like that.
struct LockSighting {
  uint64_t token = 0;  // 0: nobody's
  int64_t beats = -1;
  int64_t since_ns = 0;
};

// Only looks. One that cannot be read is nobody's.
LockSighting LookAtLock(Files& files, const std::string& root, int64_t now_ns);

struct LockRequest {
  std::string root;  // which is there
  LockOwner self;    // with a token of its own
  LockSighting seen = {};
  int64_t deadline_ns =
      0;  // of the wait for beats of an owner of which nothing else tells whether it lives
};

class DirectoryLock {
 public:
  // BAD_STATE, naming the owner, if it lives. `files` and `proc` outlive the lock.
  static absl::StatusOr<std::unique_ptr<DirectoryLock>> Take(Files& files, Proc& proc,
                                                             Patience& patience,
                                                             const LockRequest& request);
  // Lets go of it, as well as can be: who comes next finds that this process has ended.
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

  // Ok if it is this one's still; taken again if its file was removed. BAD_STATE, for good, if another one has taken it.
  absl::Status Check();

 private:
  class Taking;

  DirectoryLock(Files& files, std::string root, LockOwner self)
      : files_(files),
        root_(std::move(root)),
        self_(std::move(self)),
        beat_(files, root_, self_.token) {}

  Files& files_;
  const std::string root_;
  const LockOwner self_;
  absl::Status lost_;
  LockBeat beat_;
};

}  // namespace weft
