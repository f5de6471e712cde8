// The tensors of a checkpoint in safetensors files, each whole, under its own name, whatever the number of ranks that saved it; for programs
// that read such files, as transformers and accelerate do. Optimizer state, numbers and values stay behind.
//
//   WEFT_ASSIGN_OR_RETURN(const SavedCheckpoint saved, SavedCheckpoint::Open(files, path));
//   WEFT_RETURN_IF_ERROR(ExportTensors(saved, files, "model.safetensors"));
//   WEFT_RETURN_IF_ERROR(ExportShards(saved, files, "llama", /*shard_bytes=*/5'000'000'000).status());
//
// INTERRUPTED between two pieces, as this thread's check says.
//
// Memory: kPieceBytes and what the headers say, not a tensor. Thread-safety: one thread.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/files.h"
#include "shard/checkpoint/saved_checkpoint.h"

namespace weft {

// What is otherwise in the files than in the checkpoint.
struct ExportRules {
  // By the checkpoint's names of tensors, what the files call them, if that is another name. Nothing: it is left out.
  std::unordered_map<std::string, std::optional<std::string>> names;
  std::optional<ElementType>
      floats_as;  // the type of all floating-point values, rounded once, to nearest even
};

struct ExportSize {
  size_t tensors = 0;
  size_t bytes = 0;  // of values, as they are written
};

// INVALID_ARGUMENT if `rules` name a tensor that the checkpoint has not, give two tensors one name, or a tensor a name that is none; or if floats are to be
// of a type that is not.
absl::StatusOr<ExportSize> SizeOfExport(const SavedCheckpoint& saved,
                                        const ExportRules& rules = {});

// Makes `file`, by way of `file` + ".new"; it is there as a whole, or not at all. Its metadata are those of the files that the checkpoint was
// imported from, with `format` as readers of torch's tensors want it. `done`: of SizeOfExport(). INVALID_ARGUMENT if it exists, or if a
// header cannot have these names, and as SizeOfExport(); CORRUPT, naming the file and chunk, if the checkpoint is damaged; the errors of files.
absl::Status ExportTensors(const SavedCheckpoint& saved, Files& files, const std::string& file,
                           const BytesDone& done = nullptr, const ExportRules& rules = {});

// The same in `folder`, which is made if its parent is there: one file, model.safetensors, or, if there are more than `shard_bytes` of values,
// model-00001-of-00003.safetensors and so on, none with more unless one tensor has, and last model.safetensors.index.json, which tells where each
// tensor is. Returns the files' names. INVALID_ARGUMENT, too, if the folder has a model already. After an error nothing is left of it.
absl::StatusOr<std::vector<std::string>> ExportShards(const SavedCheckpoint& saved, Files& files,
                                                      const std::string& folder, size_t shard_bytes,
                                                      const BytesDone& done = nullptr,
                                                      const ExportRules& rules = {});

}  // namespace weft
