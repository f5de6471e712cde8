// What is said when a send or receive does not end well.
//
// Thread-safety: pure functions of what they are given; not on a steady path.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "base/proc.h"
#include "comm/node/failure.h"
#include "comm/node/message_operation.h"
#include "comm/node/node_state.h"

namespace weft {

class MessageFailure {
 public:
  // All outlive the object; of `state` only the constants are used.
  MessageFailure(const NodeState& state, const std::string& group_name,
                 const FailureReporter& reporter)
      : state_(state), group_(group_name), reporter_(reporter) {}

  absl::Status Timeout(const MessageOperation& operation) const;
  absl::Status PeerLost(const MessageOperation& operation, int peer, const ExitInfo& exit) const;
  // It has called exec.
  absl::Status PeerReplaced(const Message& message, int peer) const;
  absl::Status PeerLeft(const Message& message, int peer) const;
  // All that a receive from any source could come from.
  absl::Status AllLeft(const Message& message) const;
  // Something of this rank's own, or a peer's memory that makes no sense.
  absl::Status Local(const absl::Status& cause) const;

 private:
  ErrorFields FieldsFor(const Message& message, int culprit) const;
  std::string Heading(const Message& message) const;
  std::string OtherHalf(const Message& message) const;

  const NodeState& state_;
  const std::string& group_;
  const FailureReporter& reporter_;
};

}  // namespace weft
