// The kernel has no letter of its own for two of these states, so the order of questions matters: a process that writes its
// core sleeps or runs meanwhile, and a frozen one seems to sleep (version 2) or to be in an uninterruptible call (version 1).
#include "base/process_state.h"

#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "base/cgroup.h"
#include "base/file.h"
#include "base/text.h"

namespace weft {
namespace {

bool Rests(ProcessState state) {
  return state == ProcessState::kSleeping || state == ProcessState::kUninterruptible;
}

ProcessState OfLetter(char letter) {
  switch (letter) {
    case 'R':
      return ProcessState::kRunning;
    case 'S':
      return ProcessState::kSleeping;
    case 'D':
      return ProcessState::kUninterruptible;
    case 'T':
      return ProcessState::kStopped;
    case 't':
      return ProcessState::kTraced;
    default:
      return ProcessState::kNotKnown;
  }
}

}  // namespace

const char* ProcessStateText(ProcessState state) {
  switch (state) {
    case ProcessState::kNotKnown:
      break;
    case ProcessState::kRunning:
      return "running";
    case ProcessState::kSleeping:
      return "sleeping";
    case ProcessState::kUninterruptible:
      return "in an uninterruptible system call";
    case ProcessState::kStopped:
      return "stopped";
    case ProcessState::kTraced:
      return "stopped by a debugger";
    case ProcessState::kFrozen:
      return "frozen by its cgroup";
    case ProcessState::kDumpingCore:
      return "writing a core dump";
    case ProcessState::kEnded:
      return "ended";
  }
  return "in a state that is not known";
}

char ProcessStateLetter(ProcessState state) {
  switch (state) {
    case ProcessState::kRunning:
      return 'R';
    case ProcessState::kSleeping:
      return 'S';
    case ProcessState::kUninterruptible:
      return 'D';
    case ProcessState::kStopped:
      return 'T';
    case ProcessState::kTraced:
      return 't';
    case ProcessState::kEnded:
      return 'Z';
    case ProcessState::kNotKnown:
    case ProcessState::kFrozen:
    case ProcessState::kDumpingCore:
      break;
  }
  return '?';
}

bool IsStalled(ProcessState state) {
  switch (state) {
    case ProcessState::kUninterruptible:
    case ProcessState::kStopped:
    case ProcessState::kTraced:
    case ProcessState::kFrozen:
    case ProcessState::kDumpingCore:
      return true;
    case ProcessState::kNotKnown:
    case ProcessState::kRunning:
    case ProcessState::kSleeping:
    case ProcessState::kEnded:
      break;
  }
  return false;
}

bool IsHeld(ProcessState state) {
  return IsStalled(state) && state != ProcessState::kUninterruptible;
}

ProcessState ReadProcessState(const std::string& root, int32_t pid) {
  const std::string status = ReadFileStart(StrCat(root, "/proc/", pid, "/status"));
  const std::string state_text = FieldOf(status, "State");  // "S (sleeping)"
  if (state_text.empty()) return ProcessState::kNotKnown;
  if (FieldOf(status, "CoreDumping") == "1") return ProcessState::kDumpingCore;
  const ProcessState state = OfLetter(state_text[0]);
  return Rests(state) && IsFrozen(root, std::to_string(pid)) ? ProcessState::kFrozen : state;
}

// "135261 2493483 2": nanoseconds on a CPU, nanoseconds waiting for one, times it got one.
std::optional<int64_t> ReadCpuWaitNs(const std::string& root, int32_t pid) {
  const std::string text = ReadFileStart(StrCat(root, "/proc/", pid, "/schedstat"));
  const std::vector<std::string> fields = absl::StrSplit(text, ' ');
  int64_t wait_ns = 0;
  if (fields.size() != 3 || !absl::SimpleAtoi(fields[1], &wait_ns)) return std::nullopt;
  return wait_ns;
}

}  // namespace weft
