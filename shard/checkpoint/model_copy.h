// A model on its way between checkpoints and files that other programs read and write, from what a caller gives: paths. Of a directory of
// checkpoints the latest that is whole is meant; what is written to is locked against jobs.
//
//   WEFT_ASSIGN_OR_RETURN(ModelCopy copy, ExportModel(files, {.from = "runs/a/checkpoints", .to = "model.safetensors"}));
//   WEFT_ASSIGN_OR_RETURN(ModelCopy copy, ImportModel(files, {.from = "llama", .directory = "runs/b/checkpoints", .step = 0}));
//
// After an error nothing is left of what was begun. INTERRUPTED as this thread's check says.
//
// Memory: kPieceBytes and what the headers say, not a tensor. Thread-safety: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/files.h"
#include "shard/checkpoint/saved_checkpoint.h"
#include "shard/checkpoint/tensor_export.h"

namespace weft {

// Told how many bytes of values are to be copied, before they are; maybe again, for another checkpoint. Returns who is told of them.
using BeginBytes = std::function<BytesDone(size_t total_bytes)>;

struct ModelCopy {
  std::string checkpoint;  // the directory of the one that was exported, or was made
  int64_t step = 0;
  size_t tensors = 0;
  size_t bytes = 0;  // of values, as they were written
  std::vector<std::string>
      files;  // others': names of what was written, with the index; paths of what was read
};

struct ExportRequest {
  std::string from;  // the directory of a checkpoint, or of several
  std::string to;    // a file; with `shard_bytes` a folder
  size_t shard_bytes = 0;
  ExportRules rules;
};

// As ExportTensors(), or with `shard_bytes` as ExportShards(). A checkpoint that is damaged is passed over for the one before it, with a warning.
// INVALID_ARGUMENT, too, if there is none.
absl::StatusOr<ModelCopy> ExportModel(Files& files, const ExportRequest& request,
                                      const BeginBytes& begin = nullptr);

struct ImportRequest {
  std::string from;       // as OpenTensorFiles() has it
  std::string directory;  // of all checkpoints
  int64_t step = 0;
};

// As ImportTensors(). BAD_STATE, naming it, if a job saves in the directory, which takes up to a minute to find out of one on another host.
absl::StatusOr<ModelCopy> ImportModel(Files& files, const ImportRequest& request,
                                      const BeginBytes& begin = nullptr);

}  // namespace weft
