// The forms in which a rank knows only what it sends and receives itself: gather_v, scatter_v and
// all_to_all_v. All three are an exchange of blocks between all pairs, most of them empty for the first
// two.
//
//   CountExchange counts;
//   counts.PutRow(frame, slot);                               // with the arrival
//   if (absl::Status read = counts.Read(frame, slot); ...)    // when all have arrived
//   if (counts.has_data()) return counts.CopyData(frame, slot);
//
// With its arrival a rank puts a row into its slot: for every peer what it sends, where that begins in
// its buffer, and what it expects. Every rank reads all rows and checks all pairs, so that a difference
// is found by all. Behind the row lies the data, the blocks packed, if there is room for it; if all
// ranks had room, the operation is done with that.
//
// Thread-safety: none; as NodeState.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "comm/node/operation_frame.h"
#include "comm/node/slot_protocol.h"

namespace weft {

class CountExchange {
 public:
  // True if there is room behind a rank's row for what this rank sends, and the call does not ask for another way.
  static bool SendsData(const Collective& call, int ranks);

  static void PutRow(const OperationFrame& frame, const SlotProtocol& slot);

  // MISMATCH with the pair of ranks and their counts.
  absl::Status Read(const OperationFrame& frame, const SlotProtocol& slot);

  // After Read: all data came with the rows; the most elements that any rank sends to another.
  bool has_data() const { return has_data_; }

  size_t largest() const { return largest_; }

  // The blocks for this rank, into its output.
  static absl::Status CopyData(const OperationFrame& frame, const SlotProtocol& slot);

  // Elements between the beginning of what `peer` contributes and the block that is for this rank.
  static size_t OffsetAt(const OperationFrame& frame, const SlotProtocol& slot, int peer);

 private:
  bool has_data_;
  size_t largest_;
};

}  // namespace weft
