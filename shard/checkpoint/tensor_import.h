// A checkpoint made of others' safetensors files: of one rank, values alone, committed as any other. Loaded with WEFT_CHECKPOINT_VALUES_ONLY it
// fits any number of ranks and any preset whose params have these names, shapes and types.
//
//   WEFT_ASSIGN_OR_RETURN(TensorFiles others, OpenTensorFiles(files, "llama/model.safetensors.index.json"));
//   WEFT_ASSIGN_OR_RETURN(const std::string path, ImportTensors(files, std::move(others), "runs/a/checkpoints", /*step=*/0));
//
// Memory: kPieceBytes, a chunk, and what the headers say, not a tensor. Thread-safety: one thread; nobody else saves in the directory meanwhile.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "base/files.h"
#include "shard/checkpoint/saved_checkpoint.h"
#include "shard/checkpoint/tensor_files.h"

namespace weft {

// The directory of the checkpoint, which is then the latest in `root`, of a run of its own. `root` is made if its parent is there. The files'
// metadata come along, and go out again with ExportTensors(). `done`: of the bytes of all tensors. INVALID_ARGUMENT for a step below 0 or above
// kCheckpointStepMax; the errors of files. After an error nothing is left of it.
absl::StatusOr<std::string> ImportTensors(Files& files, TensorFiles others, const std::string& root,
                                          int64_t step, const BytesDone& done = nullptr);

}  // namespace weft
