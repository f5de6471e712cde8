// The checkpoints that a path means: one by its directory, or those in a directory of several.
//
//   WEFT_ASSIGN_OR_RETURN(const std::vector<FoundCheckpoint> found, CommittedAt(files, "runs/a/checkpoints"));
//
// Thread-safety: one thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/files.h"
#include "shard/checkpoint/checkpoint_names.h"
#include "shard/checkpoint/directory_lock.h"

namespace weft {

struct FoundCheckpoint {
  std::string path;
  CheckpointName name;
  bool committed = true;
  bool unreadable = false;
  bool pinned = false;
};

// In a directory of several, the latest last. An error if it has none.
absl::StatusOr<std::vector<FoundCheckpoint>> FindCheckpoints(Files& files,
                                                             const std::string& directory);

// The one whose directory `path` is, or the committed ones in it, the latest last. An error if there is none.
absl::StatusOr<std::vector<FoundCheckpoint>> CommittedAt(Files& files, const std::string& path);

// That no job saves in a directory until it is released; nullptr if there is no such directory. BAD_STATE names the job that does. Of one on another host
// that takes up to a minute.
absl::StatusOr<std::unique_ptr<DirectoryLock>> LockDirectory(Files& files,
                                                             const std::string& directory);

// Whether an error of reading one says that it is not as it was written, rather than that it cannot be read here and now.
bool IsDamaged(const absl::Status& status);

}  // namespace weft
