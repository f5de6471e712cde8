// Brings an operation that is blocked to its end, and says how it ended.
//
//   const Operation::Result result = operation.Poll();
//   if (result != Operation::Result::kDone && !driver.Finish(operation, result, timeout_ns, &failure)) return failure;
//
// What a blocking call (NodeGroup) and operations that were started (OperationQueue) have in common is here: to see that
// waiting has become pointless, because the group or a peer has ended or the deadline has passed; to find the cause of a
// failure and tell it to all ranks; and to give buffers back only when no peer touches them any more.
// Thread-safety: none, as NodeState: under the group's step lock while an operation is queued, under its issue lock while
// none is.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "base/wait.h"
#include "comm/node/cpu_spread.h"
#include "comm/node/early_leavers.h"
#include "comm/node/end_report.h"
#include "comm/node/failure.h"
#include "comm/node/group_counters.h"
#include "comm/node/message_engine.h"
#include "comm/node/node_state.h"
#include "comm/node/operation.h"
#include "comm/node/peer_access.h"
#include "comm/node/prepared_call.h"

namespace weft {

// For a microsecond or two: what most waits of ranks that run side by side come to.
constexpr uint32_t kBriefProbes = 64;
// Between looks at peers' processes.
constexpr int64_t kCheckPeersNs = 5'000'000;

class OperationDriver {
 public:
  // All but `policy` outlive the driver. `woken` is notified when the group is aborted here.
  OperationDriver(NodeState& state, GroupCounters& counters, FailureReporter& failures,
                  EndReport& report, MessageEngine& messages, const WaitPolicy& policy,
                  EventCount& woken)
      : state_(state),
        counters_(counters),
        failures_(failures),
        report_(report),
        messages_(messages),
        policy_(policy),
        woken_(woken) {}

  // Brings an operation that has come to `result` to its end: waits and advances it while it is blocked. True if it is done;
  // else it is concluded, and *failure says why.
  bool Finish(Operation& operation, Operation::Result result, int64_t timeout_ns,
              absl::Status* failure);

  // True if the operation must end, blocked as it is: waiting for `target` is pointless, or it is `late`. Then the group
  // has failed. Looks at processes every few milliseconds only, and at once if it is late.
  bool MustEnd(const Operation& operation, const WaitTarget& target, bool late, int64_t timeout_ns);

  // This thread is about to wait for long: it may do so on a CPU where fewer ranks are.
  void SpreadOut() { spread_.Look(state_); }

  // What to return for an operation that came to its end; NoteEnd() included.
  absl::Status Conclude(const Operation& operation, Operation::Result result);

  // Counts the staging that an operation has made: it is made once, and stays.
  void CountStage();

 private:
  bool AwaitTarget(const Operation& operation, Deadline& deadline);
  WaitPolicy PolicyTowards(int peer) const;
  bool EndedByInterrupt(const Operation& operation);
  bool Hopeless(const Operation& operation, const WaitTarget& target, bool late);
  absl::Status FindCause(const Operation& operation, const WaitTarget& target, int64_t now_ns,
                         bool late);
  bool Needs(const Operation& operation, const WaitTarget& target, int peer) const;
  absl::Status ConcludeFailed(const Operation& operation);
  bool AwaitEnd(int peer);
  std::string QuiescePeers(const Operation& operation);

  NodeState& state_;
  GroupCounters& counters_;
  FailureReporter& failures_;
  EndReport& report_;
  MessageEngine& messages_;
  const WaitPolicy policy_;
  EventCount& woken_;
  CpuSpread spread_;
  EarlyLeavers leavers_;
  int64_t checked_ns_ = 0;                 // when peers' processes were last looked at
  int64_t programs_asked_ns_ = 0;          // when they were last asked what they run
  Deadline quiesce_patience_{kQuiesceNs};  // of all operations together
};

// What is kept of every operation that has ended: in the group's counters and in the recorder. No member of the driver, because
// a small call comes by here and has both at hand.
inline void NoteEnd(NodeState& state, GroupCounters& counters, const PreparedCall& prepared,
                    uint64_t sequence, bool well) {
  counters.Ended(well, prepared.buffers.in_bytes, prepared.buffers.out_bytes);
  state.recorder.SetState(sequence, well ? RecordState::kDone : RecordState::kFailed);
}

}  // namespace weft
