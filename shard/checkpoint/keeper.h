// Makes room in a directory of checkpoints, on the rank that commits: what failed saves have left goes before the next save needs the room, and
// what is outdated once a newer checkpoint can be read.
//
//   Keeper keeper(files, root, {.last = 3}, std::move(lock));
//   WEFT_RETURN_IF_ERROR(keeper.BeginSave(name));
//   ... all ranks write ...
//   WEFT_RETURN_IF_ERROR(keeper.CheckLock());
//   ... the checkpoint is committed ...
//   keeper.EndSave(name);
//
// What cannot be removed keeps nobody from saving, nor anything else from being removed: a warning names it, once.
//
// Thread-safety: one thread at a time.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/files.h"
#include "shard/checkpoint/catalog.h"
#include "shard/checkpoint/checkpoint_names.h"
#include "shard/checkpoint/directory_lock.h"

namespace weft {

class Keeper {
 public:
  // `files` outlives it. nullptr: nobody else saves there.
  Keeper(Files& files, std::string root, const Retention& retention,
         std::unique_ptr<DirectoryLock> lock);

  // `name` is later than all that this job has saved: what is unfinished before it is nobody's any more. The error of CheckLock().
  absl::Status BeginSave(const CheckpointName& name);
  // That this job saves here still.
  absl::Status CheckLock();
  // `name` is committed.
  void EndSave(const CheckpointName& name);

  // `name` was read to its end: the next BeginSave may remove what it makes outdated.
  void KnowWhole(const CheckpointName& name) { whole_ = name; }

 private:
  void RemoveOutdated(const std::vector<CatalogEntry>& all);
  void Remove(const CheckpointName& name);
  std::optional<std::vector<CatalogEntry>> List();

  Files& files_;
  const std::string root_;
  const Retention retention_;
  const std::unique_ptr<DirectoryLock> lock_;
  std::optional<CheckpointName> whole_;  // the latest that is known to be
  std::set<CheckpointName> told_;        // of which a warning was given
};

}  // namespace weft
