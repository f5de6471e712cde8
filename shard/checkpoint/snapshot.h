// What one rank writes to a checkpoint, at one moment: the entries of its file, where their bytes are, and what its record says of them.
//
//   WEFT_ASSIGN_OR_RETURN(Snapshot snapshot, TakeSnapshot(sources, values));
//   WEFT_RETURN_IF_ERROR(snapshot.Stage(&staging));    // training may go on: the bytes are copied
//   ... WriteRank(files, place, snapshot) ...          // in another thread
//
// Thread-safety: a value; its bytes are read where they are.
#pragma once

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shard/checkpoint/manifest.h"
#include "shard/checkpoint/safetensors.h"
#include "shard/checkpoint/state_source.h"

namespace weft {

struct Snapshot {
  std::vector<SafetensorsEntry> entries;
  std::vector<const void*> data;  // of each entry
  // Of these entries; job, step, rank and what is known once the file is written are missing.
  std::vector<SavedTensor> tensors;
  SavedScalars scalars;
  std::vector<SavedValue> values;

  size_t data_bytes() const { return entries.empty() ? 0 : entries.back().end; }

  // Copies the bytes to `to`, of data_bytes(), and refers to them there from then on.
  void CopyTo(char* to);
};

// Of all sources, what this rank is to write. INVALID_ARGUMENT if two of them have a tensor, or numbers, of one name.
absl::StatusOr<Snapshot> TakeSnapshot(const std::vector<NamedSource>& sources,
                                      std::vector<SavedValue> values);

}  // namespace weft
