#include "shard/checkpoint/found_checkpoints.h"

#include <algorithm>

#include "base/later.h"
#include "base/seams.h"
#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"
#include "shard/checkpoint/catalog.h"

namespace weft {
namespace {

absl::Status NoneIn(const std::string& path, const char* what) {
  return MakeError(WEFT_INVALID_ARGUMENT, StrCat("there is no ", what, " in ", path));
}

}  // namespace

absl::StatusOr<std::vector<FoundCheckpoint>> FindCheckpoints(Files& files,
                                                             const std::string& directory) {
  WEFT_ASSIGN_OR_RETURN(const std::vector<CatalogEntry> all, ListCheckpoints(files, directory));
  if (all.empty()) return NoneIn(directory, "checkpoint");
  std::vector<FoundCheckpoint> found;
  found.reserve(all.size());
  for (const CatalogEntry& entry : all)
    found.push_back({.path = JoinPath(directory, DirectoryName(entry.name)),
                     .name = entry.name,
                     .committed = entry.committed,
                     .unreadable = entry.unreadable,
                     .pinned = entry.pinned});
  return found;
}

absl::StatusOr<std::vector<FoundCheckpoint>> CommittedAt(Files& files, const std::string& path) {
  if (files.Open(JoinPath(path, kManifestName)).ok())
    return std::vector<FoundCheckpoint>{{.path = path, .name = {}}};
  WEFT_ASSIGN_OR_RETURN(std::vector<FoundCheckpoint> found, FindCheckpoints(files, path));
  std::erase_if(found,
                [](const FoundCheckpoint& one) { return !one.committed && !one.unreadable; });
  if (found.empty()) return NoneIn(path, "checkpoint that was committed");
  return found;
}

absl::StatusOr<std::unique_ptr<DirectoryLock>> LockDirectory(Files& files,
                                                             const std::string& directory) {
  if (absl::IsNotFound(files.KindOf(directory).status())) return nullptr;
  uint64_t token = 0;
  WEFT_RETURN_IF_ERROR(SystemSeams().random->Fill(&token, sizeof(token)));
  SystemPatience patience([] { return absl::OkStatus(); });
  Proc& proc = *SystemSeams().proc;
  return DirectoryLock::Take(files, proc, patience,
                             {.root = directory,
                              .self = ThisProcess(proc, token),
                              .deadline_ns = Later(MonotonicNs(), kLockPatienceNs + kLockBeatNs)});
}

bool IsDamaged(const absl::Status& status) {
  return absl::IsNotFound(status) || ResultOf(status) == WEFT_CORRUPT;
}

}  // namespace weft
