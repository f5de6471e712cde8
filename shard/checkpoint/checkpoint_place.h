// Which checkpoint is being written, by whom.
//
// Thread-safety: a value.
#pragma once

#include <cstdint>
#include <string>

#include "shard/checkpoint/checkpoint_names.h"
#include "shard/checkpoint/manifest.h"

namespace weft {

struct CheckpointPlace {
  std::string root;  // the directory of all checkpoints
  CheckpointName name;
  CheckpointJob job = 0;
  int rank = 0;
  int ranks = 1;

  // The directory of this one.
  std::string path() const { return JoinPath(root, DirectoryName(name)); }

  std::string PathOf(const std::string& file) const { return JoinPath(path(), file); }
};

}  // namespace weft
