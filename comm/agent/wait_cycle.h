// Processes that wait for each other in different groups, and so for ever.
//
//   const std::vector<ProcessWait> cycle = FindWaitCycle(own, read);    // read: what another process shows of its wait
//   if (!cycle.empty()) LogWarn(CycleText(cycle));
//
// Each process shows the others what it waits in and which processes have not come to it (Watched). To find whether one waits,
// by way of others, for itself, is then to follow what they show. What is shown may be some tenths of a second old, so a cycle
// is believed only if it stands for several looks with the same versions, and each process has
// shown its wait again meanwhile (Agent): one that is stopped, or gets no CPU, shows what it waited
// in before. And no more is said than is known: a process has threads, and one that does not wait
// may end what seems to be for ever.
// Thread-safety: pure functions and values.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace weft {

struct ProcessName {
  int32_t pid = 0;
  int32_t unused = 0;
  uint64_t start_time = 0;

  bool operator==(const ProcessName& other) const = default;
};

// As it stands in shared memory, so without pointers.
struct ProcessWait {
  static constexpr size_t kAwaitedMax = 8;  // of more than these, the first
  static constexpr size_t kCallBytes = 160;

  ProcessName process;
  // Another one for another call, other processes that are awaited, or data that has moved.
  uint64_t version = 0;
  int64_t since_ns = 0;  // on the clock of the process
  uint32_t awaited_count = 0;
  uint32_t looks = 0;  // how often the process has looked what it waits in
  std::array<ProcessName, kAwaitedMax> awaited;
  char call
      [kCallBytes];  // "rank 0 in all_reduce (sum) of 4 float32 #3 on group a", ends with a zero
};

// What a process shows; nothing if it does not wait, or cannot be read.
using ReadProcessWait = std::function<std::optional<ProcessWait>(const ProcessName&)>;

// The shortest way from `own` over what is awaited back to it, beginning with `own`; empty if there is none.
std::vector<ProcessWait> FindWaitCycle(const ProcessWait& own, const ReadProcessWait& read);

// "CROSS_GROUP_DEADLOCK: pid 11, rank 0 in barrier #2 on group a, waits for pid 12, rank 1 in barrier #5 on group b, which waits for
// pid 11; ..."
std::string CycleText(const std::vector<ProcessWait>& cycle);

}  // namespace weft
