// What a checkpoint may have at most. Its reader refuses what is larger, and so does whoever writes it, before anything is written.
// docs/formats/checkpoint.md lists them; format_test.cc and limits_test.cc try their edges.
//
// Thread-safety: constants.
#pragma once

#include <cstddef>
#include <cstdint>

#include "weft/shard.h"

namespace weft {

// Of a record and of a manifest.
inline constexpr size_t kCheckpointTextMax = 256 << 20;
inline constexpr int kCheckpointRanksMax = 65'536;
inline constexpr size_t kCheckpointTensorsMax = 1 << 20;
inline constexpr size_t kCheckpointDimensionsMax = WEFT_SHARD_DIMS_MAX;
// Of one tensor: a rank may have several of it.
inline constexpr size_t kCheckpointCutsMax = 1 << 22;
// Of contexts, of their optimizers' groups, and of values.
inline constexpr size_t kCheckpointListMax = 1 << 22;
// Elements of a tensor, bytes of all tensors' states together, and every other number.
inline constexpr uint64_t kCheckpointNumberMax = uint64_t{1} << 62;
inline constexpr size_t kCheckpointNameBytesMax = 4096;
inline constexpr size_t kCheckpointValueBytesMax = 16 << 20;
// A value of more stands in a file of its rank, and not in the record and the manifest, which every rank reads whole.
inline constexpr size_t kInlineValueBytesMax = 1024;

}  // namespace weft
