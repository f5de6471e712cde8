// Who saves in a directory of checkpoints, so that another job can name it, and tell whether it still lives.
//
//   const LockOwner own = ThisProcess(proc, token);
//   ... write LockOwnerText(own), read another one's ...
//   if (LifeOf(proc, own, other) == OwnerLife::kEnded) ...
//
// A pid says something only on its machine, since that was started, and in its pid namespace: of any other owner nobody can tell
// by looking whether it lives.
//
// Thread-safety: pure functions; `proc` as its own.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/proc.h"

namespace weft {

struct LockOwner {
  uint64_t token = 0;  // drawn by each taking of a lock; 0: nobody's
  std::string host;
  std::string boot_id;
  std::string pid_namespace;
  int32_t pid = 0;
  uint64_t start_time = 0;  // tells a reused pid
  std::string job;  // as its launcher calls it, the same when it is started again; "": not known
};

enum class OwnerLife { kEnded, kLives, kNotKnown };

// Of this process.
LockOwner ThisProcess(Proc& proc, uint64_t token);

// The text of a file, and what is in it; CORRUPT for what is none.
std::string LockOwnerText(const LockOwner& owner);
absl::StatusOr<LockOwner> ReadLockOwner(std::string_view file, std::string_view text);
inline constexpr size_t kLockOwnerTextMax = 16 << 10;

// "process 4711 on host a of job slurm-17.0".
std::string Describe(const LockOwner& owner);

// A job that is started again, or goes on with other ranks, is the same job.
bool IsOfSameJob(const LockOwner& a, const LockOwner& b);

OwnerLife LifeOf(Proc& proc, const LockOwner& self, const LockOwner& owner);

}  // namespace weft
