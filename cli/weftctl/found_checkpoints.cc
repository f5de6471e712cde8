#include "cli/weftctl/found_checkpoints.h"

#include <algorithm>

#include "base/files.h"
#include "base/status.h"
#include "base/text.h"
#include "shard/checkpoint/catalog.h"

namespace weft {
namespace {

absl::Status NoneIn(const std::string& path, const char* what) {
  return MakeError(WEFT_INVALID_ARGUMENT, StrCat("there is no ", what, " in ", path));
}

}  // namespace

absl::StatusOr<std::vector<FoundCheckpoint>> FindCheckpoints(const std::string& directory) {
  WEFT_ASSIGN_OR_RETURN(const std::vector<CatalogEntry> all,
                        ListCheckpoints(SystemFiles(), directory));
  if (all.empty()) return NoneIn(directory, "checkpoint");
  std::vector<FoundCheckpoint> found;
  found.reserve(all.size());
  for (const CatalogEntry& entry : all)
    found.push_back({.path = JoinPath(directory, DirectoryName(entry.name)),
                     .name = entry.name,
                     .committed = entry.committed,
                     .unreadable = entry.unreadable});
  return found;
}

absl::StatusOr<std::vector<FoundCheckpoint>> CommittedAt(const std::string& path) {
  if (SystemFiles().Open(JoinPath(path, kManifestName)).ok())
    return std::vector<FoundCheckpoint>{{.path = path, .name = {}}};
  WEFT_ASSIGN_OR_RETURN(std::vector<FoundCheckpoint> found, FindCheckpoints(path));
  std::erase_if(found,
                [](const FoundCheckpoint& one) { return !one.committed && !one.unreadable; });
  if (found.empty()) return NoneIn(path, "checkpoint that was committed");
  return found;
}

bool IsDamaged(const absl::Status& status) {
  return absl::IsNotFound(status) || ResultOf(status) == WEFT_CORRUPT;
}

}  // namespace weft
