// What a process gives to others so that they can tell when it has ended: a descriptor that becomes ready then.
//
//   WEFT_ASSIGN_OR_RETURN(const Lifeline mine, OwnLifeline());
//   ... send mine.fd by SCM_RIGHTS, and mine.kind; there:
//   WEFT_ASSIGN_OR_RETURN(auto peer, SystemProc().Watch({std::move(fd), kind}, pid, start_time));
//
// It is a pidfd of the process itself: that is the same process in every pid namespace, where a number is another one or
// none. Where the system has no pidfds, or a filter refuses them, it is the reading end of a pipe whose
// writing end this process alone has: the kernel closes that when the process ends. A forked child closes its copy
// before it returns from fork(); one that is made without the C library's fork() keeps it, and the end is told when
// that has ended too.
//
// Thread-safety: any thread. The pipe, once made, stays as long as the process.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "base/fd.h"

namespace weft {

struct Lifeline {
  enum class Kind : uint32_t { kPidfd = 1, kPipe = 2 };

  UniqueFd fd;
  Kind kind = Kind::kPidfd;
};

// This process's. SYSTEM_ERROR if there are no more descriptors.
absl::StatusOr<Lifeline> OwnLifeline();

}  // namespace weft
