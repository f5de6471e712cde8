// Writes a group's flight recorder to a file when the first of its operations fails.
//
//   FailureDump dump_(state_, options_.name);   // with the group
//   dump_.WriteOnce(cause);                     // when an operation has failed
//
// Only if the option dump_dir (WEFT_DUMP_DIR) is set; otherwise WriteOnce does nothing. What goes wrong
// while writing is one warning in the log and never replaces the cause.
// Thread-safety: WriteOnce from any thread while the group's segment is there; the first call writes.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "comm/node/node_state.h"

namespace weft {

class FailureDump {
 public:
  // Both outlive the object; of `state` only the constants are used.
  FailureDump(const NodeState& state, const std::string& group_name);

  void WriteOnce(const absl::Status& cause);

 private:
  void Write(const std::string& directory, const absl::Status& cause) const;
  uint64_t TicksPerSecond(uint64_t ticks_now) const;

  const NodeState& state_;
  const std::string& group_;
  // One reading of both clocks: the recorder's is measured over the life of the group.
  const uint64_t made_ticks_;
  const int64_t made_ns_;
  std::atomic<bool> written_{false};
};

}  // namespace weft
