#include "shard/checkpoint/catalog.h"

#include <algorithm>
#include <optional>

#include "base/status.h"
#include "base/text.h"

namespace weft {
namespace {

bool HasName(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// What is in a checkpoint's directory: files of the format, and the first name of anything else.
struct Contents {
  std::vector<std::string> own;
  std::string foreign;
};

absl::StatusOr<Contents> SortContents(Files& files, const std::string& path,
                                      const std::vector<std::string>& names) {
  Contents contents;
  for (const std::string& name : names) {
    bool own = IsCheckpointFile(name);
    if (own) {
      const absl::StatusOr<FileKind> kind = files.KindOf(JoinPath(path, name));
      if (absl::IsNotFound(kind.status())) continue;
      WEFT_RETURN_IF_ERROR(kind.status());
      own = *kind != FileKind::kDirectory;
    }
    if (own) {
      contents.own.push_back(name);
    } else if (contents.foreign.empty()) {
      contents.foreign = name;
    }
  }
  return contents;
}

absl::Status ForeignError(const std::string& path, const std::string& name) {
  return MakeError(WEFT_BAD_STATE,
                   StrCat(path, " has ", name, " in it, which is no file of a checkpoint; move ",
                          name, " elsewhere, or remove ", path, " yourself"));
}

absl::Status RemoveFile(Files& files, const std::string& directory, const std::string& name) {
  const absl::Status removed = files.Remove(JoinPath(directory, name));
  return absl::IsNotFound(removed) ? absl::OkStatus() : removed;
}

}  // namespace

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
                   .unreadable = !inside.ok(),
                   .pinned = inside.ok() && HasName(*inside, kPinName)});
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
    if (!entry->committed || latest < entry->name) continue;
    const bool among_last = retention.last == 0 || newer < retention.last;
    const bool kept = retention.every > 0 && entry->name.step % retention.every == 0;
    ++newer;
    if (!among_last && !kept && !entry->pinned) outdated.push_back(entry->name);
  }
  std::reverse(outdated.begin(), outdated.end());
  return outdated;
}

std::vector<CheckpointName> Remains(const std::vector<CatalogEntry>& all,
                                    const CheckpointName& next) {
  std::vector<CheckpointName> remains;
  for (const CatalogEntry& entry : all) {
    if (!entry.committed && !entry.unreadable && entry.name < next) remains.push_back(entry.name);
  }
  return remains;
}

absl::Status RemoveCheckpoint(Files& files, const std::string& root, const CheckpointName& name) {
  const std::string path = JoinPath(root, DirectoryName(name));
  const absl::StatusOr<FileKind> kind = files.KindOf(path);
  if (absl::IsNotFound(kind.status())) return absl::OkStatus();
  WEFT_RETURN_IF_ERROR(kind.status());
  if (*kind == FileKind::kLink) {
    return MakeError(WEFT_BAD_STATE,
                     StrCat(path,
                            " is a symbolic link, and what it leads to is not removed; remove "
                            "the link and the checkpoint yourself when it is not needed"));
  }
  WEFT_ASSIGN_OR_RETURN(const std::vector<std::string> names, files.List(path));
  if (HasManifest(names) && HasName(names, kPinName)) {
    return MakeError(WEFT_BAD_STATE,
                     StrCat(path, " is pinned; weftctl checkpoint unpin ", path, " ends that"));
  }
  WEFT_ASSIGN_OR_RETURN(const Contents contents, SortContents(files, path, names));
  const absl::Status foreign =
      contents.foreign.empty() ? absl::OkStatus() : ForeignError(path, contents.foreign);
  if (HasManifest(names)) {
    WEFT_RETURN_IF_ERROR(foreign);
    WEFT_RETURN_IF_ERROR(RemoveFile(files, path, kManifestName));
    WEFT_RETURN_IF_ERROR(files.SyncDirectory(path));
  }
  absl::Status removed;
  for (const std::string& file : contents.own) {
    if (file != kManifestName) removed.Update(RemoveFile(files, path, file));
  }
  WEFT_RETURN_IF_ERROR(removed);
  WEFT_RETURN_IF_ERROR(foreign);
  return files.RemoveDirectory(path);
}

absl::Status PinCheckpoint(Files& files, const std::string& path) {
  const std::string manifest = JoinPath(path, kManifestName);
  WEFT_RETURN_IF_ERROR(files.Open(manifest).status());
  const std::string pin = JoinPath(path, kPinName);
  const auto made = files.Create(pin, 0);
  if (!made.ok() && !absl::IsAlreadyExists(made.status())) return made.status();
  if (made.ok()) WEFT_RETURN_IF_ERROR((*made)->Close());
  WEFT_RETURN_IF_ERROR(files.SyncDirectory(path));
  // Whoever removes it has looked for the pin before it removes this.
  return files.Open(manifest).status();
}

absl::Status UnpinCheckpoint(Files& files, const std::string& path) {
  WEFT_RETURN_IF_ERROR(files.Open(JoinPath(path, kManifestName)).status());
  WEFT_RETURN_IF_ERROR(RemoveFile(files, path, kPinName));
  return files.SyncDirectory(path);
}

}  // namespace weft
