// The tensors of others' safetensors files, by what their headers say: of one file, of the files that an index names, or of a folder of them.
//
//   OpenTensorFiles(files, "model.safetensors")
//   OpenTensorFiles(files, "llama/model.safetensors.index.json")     // as Hugging Face writes large models: model-00001-of-00003.safetensors ...
//   OpenTensorFiles(files, "llama")                                  // by the index in it, else all of its .safetensors files
//
// Nothing that a file says is believed further than it goes: such files have no checksums. An index names files that lie beside it.
//
// Thread-safety: pure functions; values.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/files.h"
#include "shard/checkpoint/safetensors.h"

namespace weft {

struct TensorFile {
  std::string path;
  size_t bytes = 0;
  SafetensorsLayout layout;
};

struct TensorFiles {
  std::string path;               // that was asked for
  std::vector<TensorFile> files;  // each tensor is in one of them
  SafetensorsMetadata metadata;   // of all; where two say something else, the first counts
};

// CORRUPT, naming file and tensor, if one is no safetensors file or is cut off, if two files have a tensor, or if an index names a tensor that
// its file has not, or a file that is not beside it; INVALID_ARGUMENT for a folder without such files, without some of a series, or with several
// indexes; NOT_FOUND of absl if there is nothing at `path`; the errors of files.
absl::StatusOr<TensorFiles> OpenTensorFiles(Files& files, const std::string& path);

// Whether a path that is there is for OpenTensorFiles: a file, or a folder with .safetensors files in it.
bool HasTensorFiles(Files& files, const std::string& path);

}  // namespace weft
