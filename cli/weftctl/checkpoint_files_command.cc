// VerifyCheckpoints, ExportCheckpoint, ImportCheckpoint: what reads whole checkpoints.
#include <vector>

#include <fmt/format.h>

#include "base/files.h"
#include "base/log.h"
#include "base/status.h"
#include "base/text.h"
#include "cli/weftctl/byte_progress.h"
#include "cli/weftctl/commands.h"
#include "cli/weftctl/found_checkpoints.h"
#include "shard/checkpoint/saved_checkpoint.h"
#include "shard/checkpoint/tensor_export.h"
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

absl::StatusOr<std::string> Export(const std::string& path, const std::string& to) {
  WEFT_ASSIGN_OR_RETURN(const SavedCheckpoint saved, SavedCheckpoint::Open(SystemFiles(), path));
  const size_t bytes = ValueBytes(saved.manifest());
  ByteProgress progress(StrCat("written to ", to), bytes);
  WEFT_RETURN_IF_ERROR(
      ExportTensors(saved, SystemFiles(), to, [&](size_t more) { progress.Add(more); }));
  return fmt::format("{}: {} tensors, {}, of {}\n", to, saved.manifest().tensors.size(),
                     ByteText(bytes), path);
}

absl::StatusOr<std::string> Import(const ImportArguments& arguments) {
  WEFT_ASSIGN_OR_RETURN(const auto file, SystemFiles().Open(arguments.file));
  WEFT_ASSIGN_OR_RETURN(const size_t bytes, file->Size());
  ByteProgress progress(StrCat("of ", arguments.file, " imported"), bytes);
  WEFT_ASSIGN_OR_RETURN(const std::string path,
                        ImportTensors(SystemFiles(), arguments.file, arguments.directory,
                                      arguments.step, [&](size_t more) { progress.Add(more); }));
  WEFT_ASSIGN_OR_RETURN(const SavedCheckpoint saved, SavedCheckpoint::Open(SystemFiles(), path));
  return fmt::format("{}: {} tensors, {}, of {}\n", path, saved.manifest().tensors.size(),
                     ByteText(saved.data_bytes()), arguments.file);
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

CommandOutput ExportCheckpoint(const std::string& path, const std::string& to) {
  const auto found = CommittedAt(path);
  if (!found.ok()) return OutputOf(found.status());
  // Where nothing can be written no checkpoint is to blame.
  const auto beside = SystemFiles().List(ParentDirectory(to));
  if (!beside.ok()) return OutputOf(beside.status());
  for (auto one = found->rbegin();; ++one) {
    const absl::StatusOr<std::string> exported = Export(one->path, to);
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
