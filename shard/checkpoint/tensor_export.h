// The tensors of a checkpoint in safetensors files, each whole, under its own name, whatever the number of ranks that saved it; for programs
// that read such files, as transformers and accelerate do. Optimizer state, numbers and values stay behind.
//
//   WEFT_ASSIGN_OR_RETURN(const SavedCheckpoint saved, SavedCheckpoint::Open(files, path));
//   WEFT_RETURN_IF_ERROR(ExportTensors(saved, files, "model.safetensors"));
//   WEFT_RETURN_IF_ERROR(ExportShards(saved, files, "llama", /*shard_bytes=*/5'000'000'000).status());
//
// Memory: kPieceBytes and what the headers say, not a tensor. Thread-safety: one thread.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/files.h"
#include "shard/checkpoint/saved_checkpoint.h"

namespace weft {

// Of all tensors' values.
size_t ValueBytes(const Manifest& manifest);

// Makes `file`, by way of `file` + ".new"; it is there as a whole, or not at all. Its metadata are those of the files that the checkpoint was
// imported from, with `format` as readers of torch's tensors want it. `done`: of ValueBytes(). INVALID_ARGUMENT if it exists, or if a
// header cannot have these names; CORRUPT, naming the file and chunk, if the checkpoint is damaged; the errors of files.
absl::Status ExportTensors(const SavedCheckpoint& saved, Files& files, const std::string& file,
                           const BytesDone& done = nullptr);

// The same in `folder`, which is made if its parent is there: one file, model.safetensors, or, if there are more than `shard_bytes` of values,
// model-00001-of-00003.safetensors and so on, none with more unless one tensor has, and last model.safetensors.index.json, which tells where each
// tensor is. Returns the files' names. INVALID_ARGUMENT, too, if the folder has a model already. After an error nothing is left of it.
absl::StatusOr<std::vector<std::string>> ExportShards(const SavedCheckpoint& saved, Files& files,
                                                      const std::string& folder, size_t shard_bytes,
                                                      const BytesDone& done = nullptr);

}  // namespace weft
