// What one rank says to its callers once its group has ended.
//
//   report.Tell(cause);            // an operation that was under way returns the cause
//   return report.Refusal();       // a call that comes later
//
// The first caller to learn of the end gets its cause, whichever operation that was; later ones are told that the group is
// of no use any more. By then the peers know that this rank has seen the end, the groups that were split from this one have ended
// too, and the flight recorder is in its file.
// Thread-safety: any thread, while the group's segment is there.
#pragma once

#include <atomic>
#include <string>

#include "absl/status/status.h"
#include "comm/node/failure.h"
#include "comm/node/failure_dump.h"
#include "comm/node/node_state.h"
#include "comm/node/parts.h"

namespace weft {

class EndReport {
 public:
  // All outlive the report; of `state` only the constants are used.
  EndReport(const NodeState& state, const std::string& group_name, const FailureReporter& failures,
            Parts& parts)
      : state_(state),
        group_(group_name),
        failures_(failures),
        parts_(parts),
        dump_(state, group_name) {}

  // An operation is about to return `cause`.
  void Tell(const absl::Status& cause);

  // For a call that starts nothing, because the group has ended.
  absl::Status Refusal();

 private:
  void Acknowledge(const absl::Status& cause);

  const NodeState& state_;
  const std::string& group_;
  const FailureReporter& failures_;
  Parts& parts_;
  FailureDump dump_;
  std::atomic<bool> told_{false};          // the cause, to somebody
  std::atomic<bool> acknowledged_{false};  // that is recorded once
};

}  // namespace weft
