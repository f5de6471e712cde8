// Threads of weft's own inside somebody's program.
//
//   WEFT_ASSIGN_OR_RETURN(std::thread thread, StartHiddenThread("weft-progress", [this] { Loop(); }));
//
// They block all signals: those are for the threads of the program, which may wait for them (sigwait) or expect a handler to
// run on one of its own. Their stacks are large enough for what they do, whatever the limit on stacks (ulimit -s).
// Thread-safety: any thread.
#pragma once

#include <cstddef>
#include <functional>
#include <thread>

#include "absl/status/statusor.h"

namespace weft {

enum class ThreadPriority {
  kAsStarter,  // of the thread that starts it
  // Its nice value is 10 higher: beside a thread that computes on the same CPU it gets a tenth of it, and all of it while nobody else wants
  // it. For good, as raising a priority takes a privilege: nobody who is in a hurry may wait for it. Where the system refuses, as kAsStarter.
  kLow,
};

// Of their stacks, at least.
constexpr size_t kLeastStackBytes = size_t{1} << 20;

// `name`: of at most 15 characters, as ps shows it. SYSTEM_ERROR if there is no thread to be had.
absl::StatusOr<std::thread> StartHiddenThread(const char* name, std::function<void()> body,
                                              ThreadPriority priority = ThreadPriority::kAsStarter);

}  // namespace weft
