// Descriptors that a forked child has no part in. While any process has a copy of a socket, its other end hears nothing when the process
// ends to which it belongs, and the machine goes on to acknowledge what is sent there: whoever goes by that would take a dead process for
// one that is stopped.
//
//   KeepFromChildren(fd);          // after it was made
//   ...
//   ForgetKept(fd);                // before it is closed
//
// In the child the number stands for something else from the beginning, which nobody uses, so that what is left there of the parent's
// objects closes nothing of the child's own. A child that is made without the C library's fork() keeps its copy.
//
// Both cost one atomic operation, whatever the number of descriptors. Thread-safety: any thread.
#pragma once

namespace weft {

// Linux gives no higher numbers unless its limit was raised (fs.nr_open): these are not kept.
constexpr int kKeptEnd = 1 << 20;

void KeepFromChildren(int fd);

// Nothing if it is not kept.
void ForgetKept(int fd);

}  // namespace weft
