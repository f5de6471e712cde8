// All that one rank does for one save, from the first file to the end of the checkpoint: it writes its part; rank 0 makes room before, waits for
// the parts of all, commits, and removes what is outdated; the others wait until it has.
//
//   absl::Status saved = RunSave(files, patience, place, snapshot, settings);      // Ok: the checkpoint is committed
//
// Ranks meet in the directory alone: no rank communicates. After an error there is no such checkpoint, or, if the error came while rank
// 0's last sync was under way, one that is whole. What a rank has written of one that failed is removed as soon as it is known that
// rank 0 does not commit it (rank_writer.h), and with all that death has left, before the next save.
//
// Thread-safety: one thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "base/files.h"
#include "shard/checkpoint/checkpoint_place.h"
#include "shard/checkpoint/keeper.h"
#include "shard/checkpoint/patience.h"
#include "shard/checkpoint/snapshot.h"

namespace weft {

struct SaveSettings {
  int64_t timeout_ns = 0;    // from now on
  std::string config = {};   // rank 0's config.json
  Keeper* keeper = nullptr;  // rank 0's; nullptr: nothing is removed
};

// The snapshot's holds are let go as soon as this rank's part is written.
absl::Status RunSave(Files& files, Patience& patience, const CheckpointPlace& place,
                     Snapshot& snapshot, const SaveSettings& settings);

// Of a save that has failed before RunSave(): the other ranks are told, and room is made as by any other.
void TellFailure(Files& files, const CheckpointPlace& place, const SaveSettings& settings,
                 const absl::Status& failure);

}  // namespace weft
