// VerifyCheckpoints, ExportCheckpoint, ImportCheckpoint: what reads whole checkpoints.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/files.h"
#include "base/quantity.h"
#include "base/status.h"
#include "base/text.h"
#include "cli/weftctl/byte_progress.h"
#include "cli/weftctl/commands.h"
#include "shard/checkpoint/found_checkpoints.h"
#include "shard/checkpoint/model_copy.h"
#include "shard/checkpoint/saved_checkpoint.h"

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

// How far a copy is, from its begin on.
class Bar {
 public:
  explicit Bar(std::string what) : what_(std::move(what)) {}

  BeginBytes begin() {
    return [this](size_t total_bytes) -> BytesDone {
      progress_.emplace(what_, total_bytes);
      return [this](size_t bytes) {
        progress_->Add(bytes);
      };
    };
  }

 private:
  const std::string what_;
  std::optional<ByteProgress> progress_;
};

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

absl::StatusOr<std::string> Export(const std::string& path, const ExportArguments& arguments) {
  const std::string& to = arguments.to;
  WEFT_ASSIGN_OR_RETURN(const size_t shard_bytes, ShardBytesOf(arguments));
  Bar bar(StrCat("written to ", to));
  WEFT_ASSIGN_OR_RETURN(
      const ModelCopy copy,
      ExportModel(SystemFiles(), {.from = path, .to = to, .shard_bytes = shard_bytes},
                  bar.begin()));
  std::string files;
  if (shard_bytes > 0) {
    files = fmt::format(", in {}{}", copy.files.front(),
                        copy.files.size() == 1 ? "" : fmt::format(" to {}", copy.files.back()));
  }
  return fmt::format("{}: {} tensors, {}{}, of {}\n", to, copy.tensors, ByteText(copy.bytes), files,
                     copy.checkpoint);
}

absl::StatusOr<std::string> Import(const ImportArguments& arguments) {
  Bar bar(StrCat("of ", arguments.file, " imported"));
  WEFT_ASSIGN_OR_RETURN(const ModelCopy copy, ImportModel(SystemFiles(),
                                                          {.from = arguments.file,
                                                           .directory = arguments.directory,
                                                           .step = arguments.step},
                                                          bar.begin()));
  const size_t files = copy.files.size();
  return fmt::format("{}: {} tensors, {}, of {}{}\n", copy.checkpoint, copy.tensors,
                     ByteText(copy.bytes), arguments.file,
                     files == 1 ? "" : fmt::format(" ({} files)", files));
}

CommandOutput OutputOf(const absl::StatusOr<std::string>& text) {
  if (!text.ok()) return {"", {std::string(text.status().message())}};
  return {*text, {}};
}

}  // namespace

CommandOutput VerifyCheckpoints(const std::string& path) {
  const auto found = CommittedAt(SystemFiles(), path);
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
  return OutputOf(Export(path, arguments));
}

CommandOutput ImportCheckpoint(const ImportArguments& arguments) {
  return OutputOf(Import(arguments));
}

}  // namespace weft
