// All that one rank does for one save, from the first file to the end of the checkpoint: it writes its part; rank 0 waits for the parts of
// all, commits, and removes what is outdated; the others wait until it has.
//
//   absl::Status saved = RunSave(files, patience, place, snapshot, settings);      // Ok: the checkpoint is committed
//
// Ranks meet in the directory alone: no rank communicates. After an error there is no such checkpoint, or, if the error came while rank
// 0's last sync was under way, one that is whole.
//
// Thread-safety: one thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "base/files.h"
#include "shard/checkpoint/catalog.h"
#include "shard/checkpoint/checkpoint_place.h"
#include "shard/checkpoint/snapshot.h"

namespace weft {

// How a save waits for files of other ranks.
class Patience {
 public:
  virtual ~Patience() = default;
  virtual int64_t NowNs() = 0;
  // Sleeps until then, or less long.
  virtual void PauseUntil(int64_t time_ns) = 0;
  // Why it is not worth waiting any more, as other ranks will not come; Ok while it is.
  virtual absl::Status Over() = 0;
};

struct SaveSettings {
  int64_t timeout_ns = 0;    // from now on
  std::string config = {};   // rank 0's config.json
  Retention retention = {};  // rank 0's
};

// The snapshot's holds are let go as soon as this rank's part is written.
absl::Status RunSave(Files& files, Patience& patience, const CheckpointPlace& place,
                     Snapshot& snapshot, const SaveSettings& settings);

}  // namespace weft
