// The tensors of a checkpoint in one safetensors file, each whole, under its own name, whatever the number of ranks that saved it; for programs
// that read such files. Optimizer state, numbers and values stay behind.
//
//   WEFT_ASSIGN_OR_RETURN(const SavedCheckpoint saved, SavedCheckpoint::Open(files, path));
//   WEFT_RETURN_IF_ERROR(ExportTensors(saved, files, "model.safetensors"));
//
// Memory: kPieceBytes and what the headers say, not a tensor. Thread-safety: one thread.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "base/files.h"
#include "shard/checkpoint/saved_checkpoint.h"

namespace weft {

// Of a file that is copied, so much is in memory at a time.
inline constexpr size_t kPieceBytes = 16 << 20;

// Of all tensors' values.
size_t ValueBytes(const Manifest& manifest);

// Makes `file`, by way of `file` + ".new"; it is there as a whole, or not at all. `done`: of ValueBytes(). INVALID_ARGUMENT if it exists, or if a
// header cannot have these names; CORRUPT, naming the file and chunk, if the checkpoint is damaged; the errors of files.
absl::Status ExportTensors(const SavedCheckpoint& saved, Files& files, const std::string& file,
                           const BytesDone& done = nullptr);

}  // namespace weft
