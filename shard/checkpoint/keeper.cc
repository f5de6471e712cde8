#include "shard/checkpoint/keeper.h"

#include <utility>

#include "base/log.h"
#include "base/status.h"
#include "shard/checkpoint/saved_checkpoint.h"

namespace weft {

Keeper::Keeper(Files& files, std::string root, const Retention& retention,
               std::unique_ptr<DirectoryLock> lock)
    : files_(files), root_(std::move(root)), retention_(retention), lock_(std::move(lock)) {}

absl::Status Keeper::CheckLock() {
  return lock_ == nullptr ? absl::OkStatus() : lock_->Check();
}

absl::Status Keeper::BeginSave(const CheckpointName& name) {
  WEFT_RETURN_IF_ERROR(CheckLock());
  const std::optional<std::vector<CatalogEntry>> all = List();
  if (!all) return absl::OkStatus();
  for (const CheckpointName& left : Remains(*all, name))
    Remove(left);
  // That of the save before may have been cut off.
  RemoveOutdated(*all);
  return absl::OkStatus();
}

// Only when the new one can be read again: never below one that was looked at.
void Keeper::EndSave(const CheckpointName& name) {
  const auto saved = SavedCheckpoint::Open(files_, JoinPath(root_, DirectoryName(name)));
  if (!saved.ok()) {
    LogWarn("checkpoint: what was just written cannot be read, so nothing older is removed: ",
            FromAbsl(saved.status().message()));
    return;
  }
  whole_ = name;
  const std::optional<std::vector<CatalogEntry>> all = List();
  if (!all) return;
  for (const CheckpointName& left : Remains(*all, name))
    Remove(left);
  RemoveOutdated(*all);
}

void Keeper::RemoveOutdated(const std::vector<CatalogEntry>& all) {
  if (!whole_) return;
  for (const CheckpointName& name : Outdated(all, *whole_, retention_))
    Remove(name);
}

void Keeper::Remove(const CheckpointName& name) {
  const absl::Status removed = RemoveCheckpoint(files_, root_, name);
  if (removed.ok()) return;
  if (told_.insert(name).second) {
    LogWarn("checkpoint: one that is not needed any more was not removed: ",
            FromAbsl(removed.message()));
  }
}

std::optional<std::vector<CatalogEntry>> Keeper::List() {
  absl::StatusOr<std::vector<CatalogEntry>> all = ListCheckpoints(files_, root_);
  if (all.ok()) return *std::move(all);
  LogWarn("checkpoint: what is not needed any more was not removed: ",
          FromAbsl(all.status().message()));
  return std::nullopt;
}

}  // namespace weft
