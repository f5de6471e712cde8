// Writes a group's flight recorder to a file when the first of its operations fails.
//
//   FailureDump dump_(state_, options_.name);   // with the group
//   dump_.WriteOnce(cause);                     // when an operation has failed
//
// As DumpOnce says (comm/recorder/dump_once.h). Nothing of an island's group: the group that it is a part of has records of its own.
// Thread-safety: WriteOnce from any thread while the group's segment is there; the first call writes.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "comm/node/node_state.h"
#include "comm/recorder/dump_once.h"

namespace weft {

class FailureDump {
 public:
  // Both outlive the object; of `state` only the constants are used.
  FailureDump(const NodeState& state, const std::string& group_name)
      : state_(state), group_(group_name) {}

  void WriteOnce(const absl::Status& cause);

 private:
  const NodeState& state_;
  const std::string& group_;
  DumpOnce once_;
};

}  // namespace weft
