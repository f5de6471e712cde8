// How a group ends: the first rank to find out writes why on the group's board (failure_board.h), all others read it.
// Nothing here is on a steady path.
// Thread-safety: all members, any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "base/proc.h"
#include "base/status.h"
#include "comm/node/node_state.h"
#include "comm/node/operation.h"
#include "comm/node/rank_names.h"

namespace weft {

class FailureReporter {
 public:
  // Both outlive the reporter; of `state` only the constants are used.
  FailureReporter(const NodeState& state, const std::string& group_name)
      : state_(state), names_(state, group_name) {}

  // Why the group ended; Ok while it has not.
  absl::Status Cause() const;

  // Ends the group with `status` unless it has ended already (FailureBoard::Raise); wakes all ranks.
  void Raise(const absl::Status& status);

  // The sentences.
  absl::Status Mismatch(const Operation& operation) const;
  absl::Status Timeout(const Operation& operation, const WaitTarget& target,
                       int64_t timeout_ns) const;
  // `operation` may be nullptr: found between operations.
  absl::Status PeerLost(const Operation* operation, int peer, const ExitInfo& exit) const;
  absl::Status PeerLeft(const Operation& operation, int peer) const;
  // PeerLost() of the first rank whose process has ended and which did not leave before; Ok if there is none.
  absl::Status FirstLost(const Operation* operation) const;
  absl::Status PeerReplaced(const Operation& operation, int peer) const;
  absl::Status Local(const Operation& operation, const absl::Status& cause) const;
  // The loss of a rank, if one was lost without anybody having said so.
  absl::Status Aborted(std::string_view reason) const;
  // This rank's program does not wait any longer.
  absl::Status Interrupted(const Operation& operation) const;
  // Another group's failure, in terms of this one.
  absl::Status Elsewhere(const absl::Status& cause) const;

  // "rank 2 (host a, pid 4711, last call all_gather #411, process stopped)"
  std::string WhereIs(int peer) const;
  // What those who hold up all others (long_wait.h) have not done of the collective `sequence`; who of `awaited` waits as well.
  std::string HoldingUp(uint64_t sequence, const std::vector<int>& holding_up,
                        const std::vector<int>& awaited, double seconds) const;
  // As HoldingUp, of a message.
  std::string Missing(const std::vector<int>& holding_up, const std::vector<int>& awaited) const;

  const RankNames& names() const { return names_; }

  // As RanksHoldingUp (long_wait.h), after all ranks have had the time to show whom they wait for.
  std::vector<int> FindHoldingUp(const std::vector<int>& awaited) const;

 private:
  void RecordEnd(const absl::Status& status) const;
  void AwaitRecords(uint64_t sequence) const;
  ErrorFields FieldsFor(const Operation* operation, int culprit) const;
  std::vector<std::string> WhereAre(const std::vector<int>& ranks) const;
  std::string WaitAsWell(const std::vector<int>& holding_up, const std::vector<int>& awaited) const;
  std::string Heading(const Operation* operation) const;

  const NodeState& state_;
  const RankNames names_;
  Mutex raise_mutex_;  // two threads of one rank must not write its record together
};

}  // namespace weft
