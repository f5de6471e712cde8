#include "shard/checkpoint/catalog.h"

#include <algorithm>
#include <optional>

#include "base/status.h"

namespace weft {

absl::StatusOr<std::vector<CatalogEntry>> ListCheckpoints(Files& files, const std::string& root) {
  std::vector<CatalogEntry> all;
  const auto names = files.List(root);
  if (!names.ok()) {
    if (absl::IsNotFound(names.status())) return all;
    return names.status();
  }
  for (const std::string& text : *names) {
    const std::optional<CheckpointName> name = ParseDirectoryName(text);
    if (!name) continue;
    const auto inside = files.List(JoinPath(root, text));
    // It may go while it is looked at.
    if (absl::IsNotFound(inside.status())) continue;
    all.push_back({.name = *name,
                   .committed = inside.ok() && HasManifest(*inside),
                   .unreadable = !inside.ok()});
  }
  std::sort(all.begin(), all.end(),
            [](const CatalogEntry& a, const CatalogEntry& b) { return a.name < b.name; });
  return all;
}

int64_t NextRun(const std::vector<CatalogEntry>& all) {
  return all.empty() ? 0 : all.back().name.run + 1;
}

std::vector<CheckpointName> Outdated(const std::vector<CatalogEntry>& all,
                                     const CheckpointName& latest, const Retention& retention) {
  std::vector<CheckpointName> outdated;
  int64_t newer = 0;
  for (auto entry = all.rbegin(); entry != all.rend(); ++entry) {
    const bool old = entry->name < latest;
    if (entry->unreadable) continue;
    if (!entry->committed) {
      if (old) outdated.push_back(entry->name);
      continue;
    }
    const bool among_last = retention.last == 0 || newer < retention.last;
    const bool kept = retention.every > 0 && entry->name.step % retention.every == 0;
    ++newer;
    if (old && !among_last && !kept) outdated.push_back(entry->name);
  }
  std::reverse(outdated.begin(), outdated.end());
  return outdated;
}

absl::Status RemoveCheckpoint(Files& files, const std::string& root, const CheckpointName& name) {
  const std::string path = JoinPath(root, DirectoryName(name));
  WEFT_ASSIGN_OR_RETURN(const std::vector<std::string> names, files.List(path));
  const auto remove = [&](const std::string& file) {
    const absl::Status removed = files.Remove(JoinPath(path, file));
    return absl::IsNotFound(removed) ? absl::OkStatus() : removed;
  };
  if (HasManifest(names)) {
    WEFT_RETURN_IF_ERROR(remove(kManifestName));
    WEFT_RETURN_IF_ERROR(files.SyncDirectory(path));
  }
  for (const std::string& file : names) {
    if (file != kManifestName) WEFT_RETURN_IF_ERROR(remove(file));
  }
  return files.RemoveDirectory(path);
}

}  // namespace weft
