// What stands beside the tensors of a checkpoint: what one rank has written, and what all of them have, which makes the checkpoint one.
//
//   done-00003.json   RankRecord   written by rank 3 when its file is on the disk: size, checksums, cuts, numbers, values
//   manifest.json     Manifest     written by rank 0 when it has all records; without it there is no checkpoint
//
// Their texts are JSON under a seal (sealed_text.h); docs/formats/checkpoint.md has every member.
//
// Thread-safety: values and pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/shard_state.h"
#include "weft/shard_step.h"

#include "absl/status/statusor.h"
#include "shard/checkpoint/limits.h"
#include "shard/checkpoint/saved_tensor.h"

namespace weft {

// What is written; earlier ones are read. Version 1 had all values in its texts, and nothing of optimizers but their state.
inline constexpr int kCheckpointVersion = 2;
inline constexpr const char* kManifestFormat = "weft-checkpoint";
// Each of so many bytes of a file, and what is left, has a checksum.
inline constexpr size_t kCheckpointChunkBytes = 4 << 20;

// A run of a program that saves checkpoints, which tells its files from those of others: drawn by chance.
using CheckpointJob = uint64_t;

// Where the bytes of a value are in the file of values of the rank that has written it (value_file.h).
struct ValuePlace {
  size_t begin = 0;
  size_t bytes = 0;
  uint32_t checksum = 0;  // CRC-32C of these bytes
  bool operator==(const ValuePlace&) const = default;
};

// Bytes of the program's own, such as the state of a random number generator.
struct SavedValue {
  std::string name;
  int rank = -1;                                   // whose it is; -1: the same for all
  std::string bytes;                               // unless they are in a file
  std::optional<ValuePlace> place = std::nullopt;  // in the file

  size_t size() const { return place ? place->bytes : bytes.size(); }

  // The rank that has written it.
  int writer() const { return rank < 0 ? 0 : rank; }
};

// By the name that the program has given a context, "" if there is one alone.
using SavedScalars = std::map<std::string, weft_shard_state_scalars_t>;

// What a part of a context's params is updated by: one of its optimizer's param groups. Loading compares kinds of tensors and none of these numbers, which
// are there to be read.
struct SavedGroup {
  weft_optimizer_kind_t kind = WEFT_OPTIMIZER_ADAMW;
  std::vector<std::pair<std::string, double>> numbers;  // "beta1", "weight_decay", ...
  bool operator==(const SavedGroup&) const = default;
};

// As SavedScalars, of contexts that have an optimizer.
using SavedOptimizers = std::map<std::string, std::vector<SavedGroup>>;

struct RankRecord {
  CheckpointJob job = 0;
  int64_t step = 0;
  int rank = 0;
  int ranks = 1;
  size_t file_bytes = 0;
  std::vector<uint32_t> checksums;   // CRC-32C of each chunk of the file
  std::vector<SavedTensor> tensors;  // with this rank's cut, one each
  SavedScalars scalars;
  SavedOptimizers optimizers;
  std::vector<SavedValue> values;
};

// A file that the manifest vouches for.
struct SealedFile {
  size_t bytes = 0;
  uint32_t checksum = 0;
  bool operator==(const SealedFile&) const = default;
};

// A file of these contents.
SealedFile SealedFileOf(std::string_view text);

struct Manifest {
  CheckpointJob job = 0;
  int64_t step = 0;
  int ranks = 1;
  std::vector<SealedFile> records;  // by rank
  SealedFile config;                // 0 bytes: there is none
  std::vector<SavedTensor> tensors;
  SavedScalars scalars;
  SavedOptimizers optimizers;
  std::vector<SavedValue> values;
};

std::string RecordText(const RankRecord& record);
std::string ManifestText(const Manifest& manifest);

// CORRUPT if the seal is broken, if a member is missing or out of bounds, if two tensors, contexts or values of a manifest have one name, or if no rank has
// some element of a tensor of it; UNSUPPORTED for a newer version. `file` is for sentences. Who writes such a text reads it first: what is refused here is never written.
absl::StatusOr<RankRecord> ReadRecord(std::string_view file, std::string_view text);
absl::StatusOr<Manifest> ReadManifest(std::string_view file, std::string_view text);

}  // namespace weft
