// Says who is waited for, while a rank waits for long: the program learns of it before the deadline, and from every rank.
//
//   WaitReport report(state, failures, counters);
//   next_ns = report.Look(now_ns);          // now and then
//
// After two seconds a line for each rank that holds the others up and cannot go on by itself: stopped, by a debugger, frozen, writing a
// core dump, in a system call that does not end, or ready to run without getting a CPU. After ten seconds, and then at doubling distances, a line that says for what this rank waits, who has not come, and what those do. They
// are warnings: a rank that is continued goes on, and so does the operation.
// Thread-safety: one thread at a time, inside the group's gate.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/agent/wait_cycle.h"
#include "comm/node/failure.h"
#include "comm/node/group_counters.h"
#include "comm/node/node_state.h"

namespace weft {

// By which processes show each other's waits.
ProcessName ProcessNameOf(const NodePeer& peer);

class WaitReport {
 public:
  static constexpr int64_t kStalledNs = 2'000'000'000;
  static constexpr int64_t kStuckNs = 10'000'000'000;

  // All outlive the report; of `state` only the constants are used.
  WaitReport(const NodeState& state, const FailureReporter& failures, const GroupCounters& counters)
      : state_(state), failures_(failures), counters_(counters) {}

  // Returns when to look again; INT64_MAX if this rank does not wait.
  int64_t Look(int64_t now_ns);

  // What it waits in, as of the last Look(), and which processes have not come; nothing if it does not wait or all have.
  const std::optional<ProcessWait>& shown() const { return shown_; }

 private:
  // What this rank waits in: the one after so many that have ended, or the wait of its messages
  // with this number.
  struct Wait {
    bool of_messages = false;
    uint64_t ended = 0;
    uint64_t number = 0;

    bool operator==(const Wait& other) const = default;
  };

  std::optional<Wait> Find() const;
  std::optional<ProcessWait> Describe() const;
  std::optional<RecordedCall> Recorded() const;
  std::string Call() const;
  void Report(int64_t now_ns);
  std::string Waiting(int64_t waited_ns) const;
  void ReportStalled(const std::vector<int>& holding_up, int64_t now_ns);
  bool Starves(int rank, int64_t now_ns);

  const NodeState& state_;
  const FailureReporter& failures_;
  const GroupCounters& counters_;
  std::optional<Wait> wait_;  // at the last look
  int64_t since_ns_ = 0;      // when it was first seen
  std::optional<ProcessWait> shown_;
  uint32_t looks_ = 0;
  int64_t stuck_ns_ = kStuckNs;  // how long it will have waited at the next line
  std::bitset<kNodeRanksMax> stalled_told_;

  // By rank: how long it had waited for a CPU when it was looked at last.
  struct CpuWait {
    int64_t looked_ns = 0;
    int64_t wait_ns = 0;
  };

  std::array<CpuWait, kNodeRanksMax> cpu_waits_{};
};

}  // namespace weft
