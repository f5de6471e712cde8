// The checkpoints in a directory, and which of them go when there are too many.
//
//   WEFT_ASSIGN_OR_RETURN(const std::vector<CatalogEntry> all, ListCheckpoints(files, root));      // the latest is the last
//   for (const CheckpointName& name : Outdated(all, latest, {.last = 3, .every = 1000}))
//     removed.Update(RemoveCheckpoint(files, root, name));
//
// Thread-safety: any thread; of one directory one at a time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/files.h"
#include "shard/checkpoint/checkpoint_names.h"

namespace weft {

struct CatalogEntry {
  CheckpointName name;
  bool committed = false;   // it has a manifest
  bool unreadable = false;  // nobody knows: it could not be looked at
  bool pinned = false;      // it is not removed
};

// What is kept: the `last` ones, at least one, and those of steps that `every` divides. 0: `last` keeps all, `every` none.
struct Retention {
  int64_t last = 0;
  int64_t every = 0;
};

// In order. A directory that does not exist has none. One of them that cannot be looked at is no reason not to see the others.
absl::StatusOr<std::vector<CatalogEntry>> ListCheckpoints(Files& files, const std::string& root);

// Of a run that begins to save beside these: one more than the highest that has saved here, or tried to.
int64_t NextRun(const std::vector<CatalogEntry>& all);

// Of `all`, in order, what the rule does not keep, `latest` being the last that counts. Never `latest`, anything later, what is pinned, unreadable,
// or not committed.
std::vector<CheckpointName> Outdated(const std::vector<CatalogEntry>& all,
                                     const CheckpointName& latest, const Retention& retention);

// What saves before `next` have left unfinished, in order.
std::vector<CheckpointName> Remains(const std::vector<CatalogEntry>& all,
                                    const CheckpointName& next);

// The manifest first: after that it is no checkpoint, whatever becomes of the rest. Removes files of the format alone: BAD_STATE, and nothing is
// removed, if a checkpoint has something else in it, or is pinned, or if a symbolic link stands there. Of one that is not committed the
// files of the format go, and what else is in it stays. Ok if there is none.
absl::Status RemoveCheckpoint(Files& files, const std::string& root, const CheckpointName& name);

// A checkpoint that is pinned is never removed; Ok if it is. `path`: its directory. NOT_FOUND of absl if it is none, also as it is being removed.
absl::Status PinCheckpoint(Files& files, const std::string& path);
// Ok if it was not pinned.
absl::Status UnpinCheckpoint(Files& files, const std::string& path);

}  // namespace weft
