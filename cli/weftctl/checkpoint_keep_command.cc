// PinCheckpointAt, PruneCheckpoints: which checkpoints stay.
#include <limits>
#include <memory>
#include <vector>

#include "base/files.h"
#include "base/status.h"
#include "base/text.h"
#include "cli/weftctl/commands.h"
#include "shard/checkpoint/catalog.h"
#include "shard/checkpoint/found_checkpoints.h"
#include "shard/checkpoint/saved_checkpoint.h"

namespace weft {
namespace {

constexpr CheckpointName kLaterThanAll{.run = std::numeric_limits<int64_t>::max(), .step = 0};

// Everything that goes, as its job's next save would find. Nothing is outdated beside a latest one that cannot be read.
absl::StatusOr<std::vector<CheckpointName>> NotNeeded(const PruneArguments& arguments) {
  WEFT_ASSIGN_OR_RETURN(const std::vector<CatalogEntry> all,
                        ListCheckpoints(SystemFiles(), arguments.directory));
  std::vector<CheckpointName> names = Remains(all, kLaterThanAll);
  const CatalogEntry* latest = nullptr;
  for (const CatalogEntry& entry : all) {
    if (entry.committed) latest = &entry;
  }
  if (latest == nullptr || arguments.keep_last == 0) return names;
  WEFT_RETURN_IF_ERROR(SavedCheckpoint::Open(SystemFiles(), JoinPath(arguments.directory,
                                                                     DirectoryName(latest->name)))
                           .status());
  const Retention retention{.last = arguments.keep_last, .every = arguments.keep_every};
  for (const CheckpointName& name : Outdated(all, latest->name, retention))
    names.push_back(name);
  return names;
}

absl::Status CheckNumbers(const PruneArguments& arguments) {
  if (arguments.keep_last >= 0 && arguments.keep_every >= 0) return absl::OkStatus();
  return MakeError(WEFT_INVALID_ARGUMENT,
                   StrCat("--keep-last is ", arguments.keep_last, " and --keep-every ",
                          arguments.keep_every, "; use 0 or positive numbers"));
}

absl::Status Prune(const PruneArguments& arguments, CommandOutput* output) {
  WEFT_RETURN_IF_ERROR(CheckNumbers(arguments));
  // The lock is made where there is something to remove, not where a word was mistyped.
  WEFT_RETURN_IF_ERROR(FindCheckpoints(SystemFiles(), arguments.directory).status());
  WEFT_ASSIGN_OR_RETURN(const std::unique_ptr<DirectoryLock> lock,
                        LockDirectory(SystemFiles(), arguments.directory));
  WEFT_ASSIGN_OR_RETURN(const std::vector<CheckpointName> names, NotNeeded(arguments));
  for (const CheckpointName& name : names) {
    WEFT_RETURN_IF_ERROR(lock->Check());
    const absl::Status removed = RemoveCheckpoint(SystemFiles(), arguments.directory, name);
    if (removed.ok()) {
      output->text += StrCat(JoinPath(arguments.directory, DirectoryName(name)), ": removed\n");
    } else {
      output->problems.emplace_back(removed.message());
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> Pin(const std::string& path, bool pinned) {
  WEFT_ASSIGN_OR_RETURN(const std::vector<FoundCheckpoint> found, CommittedAt(SystemFiles(), path));
  const std::string& one = found.back().path;
  WEFT_RETURN_IF_ERROR(pinned ? PinCheckpoint(SystemFiles(), one)
                              : UnpinCheckpoint(SystemFiles(), one));
  return StrCat(one, pinned ? ": pinned\n" : ": not pinned\n");
}

}  // namespace

CommandOutput PinCheckpointAt(const std::string& path, bool pinned) {
  const absl::StatusOr<std::string> text = Pin(path, pinned);
  if (!text.ok()) return {"", {std::string(text.status().message())}};
  return {*text, {}};
}

CommandOutput PruneCheckpoints(const PruneArguments& arguments) {
  CommandOutput output;
  const absl::Status pruned = Prune(arguments, &output);
  if (!pruned.ok()) output.problems.emplace_back(pruned.message());
  return output;
}

}  // namespace weft
