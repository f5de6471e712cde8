// What one rank writes to a checkpoint, at one moment: the entries of its file, where their bytes are, and what its record says of them.
//
//   WEFT_ASSIGN_OR_RETURN(Snapshot snapshot, TakeSnapshot(sources, values));
//   snapshot.CopyTo(memory);                           // training may go on: the bytes are copied
//   ... WriteRank(files, place, snapshot) ...          // in another thread
//   snapshot.holds.clear();                            // and what was not copied may change again
//
// What is held is not copied: it is read when the entry is written, from memory or, where it is not there, through its source.
//
// Thread-safety: a value; its bytes are read where they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shard/checkpoint/manifest.h"
#include "shard/checkpoint/safetensors.h"
#include "shard/checkpoint/state_source.h"

namespace weft {

// Where the bytes of an entry are.
struct EntryBytes {
  const void* data =
      nullptr;  // or nullptr: with the source, this state from element `begin` of the tensor on
  StateSource* source = nullptr;
  size_t tensor = 0;
  weft_shard_state_kind_t kind = WEFT_SHARD_STATE_VALUE;
  size_t begin = 0;
  bool held = false;  // it stays as it is as long as `holds` live
};

struct Snapshot {
  std::vector<SafetensorsEntry> entries;
  std::vector<EntryBytes> bytes;  // of each entry
  std::vector<std::shared_ptr<const void>> holds;
  // Of these entries; job, step, rank and what is known once the file is written are missing.
  std::vector<SavedTensor> tensors;
  SavedScalars scalars;
  SavedOptimizers optimizers;
  std::vector<SavedValue> values;

  size_t data_bytes() const { return entries.empty() ? 0 : entries.back().end; }

  // Of those that are not held.
  size_t copied_bytes() const;
  // Copies these to `to`, of copied_bytes(), and refers to them there from then on.
  void CopyTo(char* to);
};

// Of all sources, what this rank is to write. What can be held is, if it is not in memory or `in_place`. INVALID_ARGUMENT if two of them have a
// tensor, or numbers, of one name.
absl::StatusOr<Snapshot> TakeSnapshot(const std::vector<NamedSource>& sources,
                                      std::vector<SavedValue> values, bool in_place = false,
                                      int64_t hold_until_ns = std::numeric_limits<int64_t>::max());

}  // namespace weft
