// VerifyCheckpoints, ExportCheckpoint, ImportCheckpoint: what reads whole checkpoints.
#include <memory>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/files.h"
#include "base/log.h"
#include "base/quantity.h"
#include "base/status.h"
#include "base/text.h"
#include "cli/weftctl/byte_progress.h"
#include "cli/weftctl/commands.h"
#include "cli/weftctl/found_checkpoints.h"
#include "shard/checkpoint/saved_checkpoint.h"
#include "shard/checkpoint/tensor_export.h"
#include "shard/checkpoint/tensor_files.h"
#include "shard/checkpoint/tensor_import.h"

namespace weft {
namespace {

// What is in it, in words.
absl::StatusOr<std::string> Verify(const std::string& path) {
  WEFT_ASSIGN_OR_RETURN(const SavedCheckpoint saved, SavedCheckpoint::Open(SystemFiles(), path));
  ByteProgress progress(StrCat("of ", path, " verified"), saved.data_bytes());
  WEFT_RETURN_IF_ERROR(saved.VerifyAll([&](size_t bytes) { progress.Add(bytes); }));
  return fmt::format("{} tensors, {} in all states", saved.manifest().tensors.size(),
                     ByteText(saved.data_bytes()));
}

// What was asked for, as bytes; 0: one file.
absl::StatusOr<size_t> ShardBytesOf(const ExportArguments& arguments) {
  if (arguments.shard_size.empty()) return 0;
  double bytes = 0;
  if (!ParseQuantity(arguments.shard_size, kByteSuffixes, &bytes) || bytes < 1 || bytes > 1e18) {
    return MakeError(WEFT_INVALID_ARGUMENT, StrCat("--shard-size ", arguments.shard_size,
                                                   ": use a number of bytes, as 5GB or 500MiB"));
  }
  return static_cast<size_t>(bytes);
}

absl::StatusOr<std::string> Export(const std::string& path, const std::string& to,
                                   size_t shard_bytes) {
  WEFT_ASSIGN_OR_RETURN(const SavedCheckpoint saved, SavedCheckpoint::Open(SystemFiles(), path));
  const size_t bytes = ValueBytes(saved.manifest());
  ByteProgress progress(StrCat("written to ", to), bytes);
  const auto done = [&](size_t more) {
    progress.Add(more);
  };
  std::string files;
  if (shard_bytes == 0) {
    WEFT_RETURN_IF_ERROR(ExportTensors(saved, SystemFiles(), to, done));
  } else {
    WEFT_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                          ExportShards(saved, SystemFiles(), to, shard_bytes, done));
    files = fmt::format(", in {}{}", names.front(),
                        names.size() == 1 ? "" : fmt::format(" to {}", names.back()));
  }
  return fmt::format("{}: {} tensors, {}{}, of {}\n", to, saved.manifest().tensors.size(),
                     ByteText(bytes), files, path);
}

absl::StatusOr<std::string> Import(const ImportArguments& arguments) {
  WEFT_ASSIGN_OR_RETURN(TensorFiles others, OpenTensorFiles(SystemFiles(), arguments.file));
  size_t bytes = 0;
  for (const TensorFile& file : others.files)
    bytes += file.bytes;
  const size_t files = others.files.size();
  WEFT_ASSIGN_OR_RETURN(const std::unique_ptr<DirectoryLock> lock,
                        LockDirectory(arguments.directory));
  ByteProgress progress(StrCat("of ", arguments.file, " imported"), bytes);
  WEFT_ASSIGN_OR_RETURN(const std::string path,
                        ImportTensors(SystemFiles(), std::move(others), arguments.directory,
                                      arguments.step, [&](size_t more) { progress.Add(more); }));
  WEFT_ASSIGN_OR_RETURN(const SavedCheckpoint saved, SavedCheckpoint::Open(SystemFiles(), path));
  return fmt::format("{}: {} tensors, {}, of {}{}\n", path, saved.manifest().tensors.size(),
                     ByteText(saved.data_bytes()), arguments.file,
                     files == 1 ? "" : fmt::format(" ({} files)", files));
}

CommandOutput OutputOf(const absl::StatusOr<std::string>& text) {
  if (!text.ok()) return {"", {std::string(text.status().message())}};
  return {*text, {}};
}

}  // namespace

CommandOutput VerifyCheckpoints(const std::string& path) {
  const auto found = CommittedAt(path);
  if (!found.ok()) return {"", {std::string(found.status().message())}};
  CommandOutput output;
  for (const FoundCheckpoint& one : *found) {
    const absl::StatusOr<std::string> verified = Verify(one.path);
    if (verified.ok()) {
      output.text += StrCat(one.path, ": whole; ", *verified, "\n");
    } else if (IsDamaged(verified.status())) {
      output.text += StrCat(one.path, ": damaged: ", FromAbsl(verified.status().message()), "\n");
      output.differs = true;
    } else {
      output.problems.emplace_back(verified.status().message());
    }
  }
  return output;
}

CommandOutput ExportCheckpoint(const std::string& path, const ExportArguments& arguments) {
  const std::string& to = arguments.to;
  const auto shard_bytes = ShardBytesOf(arguments);
  if (!shard_bytes.ok()) return OutputOf(shard_bytes.status());
  const auto found = CommittedAt(path);
  if (!found.ok()) return OutputOf(found.status());
  // Where nothing can be written no checkpoint is to blame.
  const auto beside = SystemFiles().List(ParentDirectory(to));
  if (!beside.ok()) return OutputOf(beside.status());
  for (auto one = found->rbegin();; ++one) {
    const absl::StatusOr<std::string> exported = Export(one->path, to, *shard_bytes);
    if (exported.ok() || !IsDamaged(exported.status()) || one + 1 == found->rend())
      return OutputOf(exported);
    LogWarn("checkpoint ", one->path,
            " is damaged; trying the one before: ", FromAbsl(exported.status().message()));
  }
}

CommandOutput ImportCheckpoint(const ImportArguments& arguments) {
  return OutputOf(Import(arguments));
}

}  // namespace weft
