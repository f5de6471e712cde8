// What happens between a rank's looks at its peers' words and at their processes: those looks go through the linker's
// --wrap, so that a test can run between the two. And a system without pidfds.
//
//   ProcessLooks::Get().before = [](int descriptor) { ... };   // runs before each look at whether a peer has ended
//   ProcessLooks::Get().no_pidfds = true;                       // pidfd_open fails with ENOSYS
//
// Link node_process_looks. Thread-safety: each thread has its own, so the looks of weft's own thread are not met; a forked child has
// those of the thread that forked.
#pragma once

#include <functional>

namespace weft::test {

struct ProcessLooks {
  std::function<void(int descriptor)> before;
  bool no_pidfds = false;

  static ProcessLooks& Get();
};

// Waits, for 20 s at most, until the process of a descriptor that was looked at has ended.
bool AwaitEnd(int descriptor);

// The pid of the process of a pidfd, as /proc has it; 0 if that does not say.
int PidOf(int pidfd);

}  // namespace weft::test
