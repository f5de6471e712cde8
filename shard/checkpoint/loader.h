// Loads the latest checkpoint that is whole, on all ranks alike.
//
//   WEFT_ASSIGN_OR_RETURN(const LoadedCheckpoint loaded, LoadCheckpoint(group, files, sources, wanted));
//
// Each rank reads what it keeps. If some rank finds a file damaged, all say so and go on to the one before it; if some rank finds that the
// checkpoint is of another model, all stop. After each that could not be read the directory is listed again: a run that saves there meanwhile
// may have removed it, after it had committed a later one.
//
// Thread-safety: collective; the sources' thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/files.h"
#include "comm/group/process_group.h"
#include "shard/checkpoint/restore.h"
#include "shard/checkpoint/saved_checkpoint.h"
#include "shard/checkpoint/state_source.h"

namespace weft {

struct LoadRequest {
  // The directory of all checkpoints; or of one, whatever it is called, if there is none in it.
  std::string root;
  int64_t step = -1;   // of the one that is wanted, the latest with it; -1: the latest
  uint32_t kinds = 0;  // bits of WEFT_SHARD_STATE_*
  bool whole = true;   // some rank must have each tensor of the checkpoint
  // `root` may be for OpenTensorFiles(), too, which have values alone.
  bool others = false;
  MatchRules rules = {};
  int64_t timeout_ns = 0;
  // Called for each checkpoint that is tried, before anything is written. Its error counts as one of the checkpoint: INVALID_ARGUMENT refuses it.
  std::function<absl::Status(const SavedCheckpoint& saved)> check = {};
};

// Names of tensors.
struct LeftTensors {
  std::vector<std::string> unused;  // of the checkpoint, that no rank has taken
  std::vector<std::string> kept;    // of this rank, that the checkpoint has not
};

// What was loaded is in the sources, on all ranks; its manifest is returned, and what has no part in it. NOT_FOUND of absl if there is none. CORRUPT if there are some,
// and none is whole, or SYSTEM_ERROR if one of them could not be read, which may be whole: then, as after any error that comes once a checkpoint fitted, the sources' state is of no use. INVALID_ARGUMENT, naming the first
// tensor that differs, if it is of another model; nothing was written then.
absl::StatusOr<SavedCheckpoint> LoadCheckpoint(ProcessGroup& group, Files& files,
                                               const std::vector<NamedSource>& sources,
                                               const LoadRequest& request,
                                               LeftTensors* left = nullptr);

}  // namespace weft
