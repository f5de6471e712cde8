// What a process that has not ended does: from facts of /proc and of its control group, never from its silence.
//
//   const ProcessState state = ReadProcessState("", pid);
//   StrCat("process ", ProcessStateText(state))     // "process stopped by a debugger"
//   if (IsStalled(state)) ...                       // it does nothing until somebody or something lets it go on
//
// Reads up to four small files, so it is for waits that take long and for messages. `root` is "" for the
// machine's own files; tests bring theirs.
// Thread-safety: pure functions over the file system.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace weft {

enum class ProcessState : uint8_t {
  kNotKnown,  // of another pid namespace, or hidden
  kRunning,
  kSleeping,
  kUninterruptible,  // in a system call that no signal ends: a disk, a network file system, a driver
  kStopped,          // by a signal
  kTraced,           // by a debugger
  kFrozen,           // its control group is
  kDumpingCore,      // a signal has ended it, but for this
  kEnded,
};

// "running", "stopped", "stopped by a debugger", "frozen by its cgroup", "writing a core dump"...
const char* ProcessStateText(ProcessState state);

// The letter that /proc and ps show for it: 'T' of a stopped one; 'D' and 'S' do not tell a frozen one; '?' if none is sure.
char ProcessStateLetter(ProcessState state);

// It does nothing by itself: stopped, traced, frozen, writing a core dump, in an uninterruptible system call.
bool IsStalled(ProcessState state);

// The same but for a system call, which may end by itself the next moment: pages that are read from a disk are waited for in
// one. It waits for nobody, so it may be blamed for those that wait for it.
bool IsHeld(ProcessState state);

// Of the process that has this pid in /proc, whichever that is. Of one whose first thread has ended while others run,
// nothing is known but that.
ProcessState ReadProcessState(const std::string& root, int32_t pid);

// How long the first thread of that process has been ready to run and had no CPU, since it began; nothing if the kernel does not
// say. Twice some time apart it tells a process that is starved from one that computes: both are running.
std::optional<int64_t> ReadCpuWaitNs(const std::string& root, int32_t pid);

}  // namespace weft
