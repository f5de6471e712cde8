// A checkpoint made of one safetensors file, such as another program has written: of one rank, values alone, committed as any other. Loaded with
// WEFT_CHECKPOINT_VALUES_ONLY it fits any number of ranks and any preset whose params have these names, shapes and types.
//
//   WEFT_ASSIGN_OR_RETURN(const std::string path, ImportTensors(files, "model.safetensors", "runs/a/checkpoints", /*step=*/0));
//
// Memory: kPieceBytes, a chunk, and what the header says, not a tensor. Thread-safety: one thread; nobody else saves in the directory meanwhile.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "base/files.h"
#include "shard/checkpoint/saved_checkpoint.h"

namespace weft {

// The directory of the checkpoint, which is then the latest in `root`, of a run of its own. `root` is made if its parent is there. `done`: of the bytes of
// `file`. CORRUPT if `file` is no safetensors file, has holes, or a type that weft has not; INVALID_ARGUMENT for a step below 0 or above
// kCheckpointStepMax; the errors of files. After an error nothing is left of it.
absl::StatusOr<std::string> ImportTensors(Files& files, const std::string& file,
                                          const std::string& root, int64_t step,
                                          const BytesDone& done = nullptr);

}  // namespace weft
