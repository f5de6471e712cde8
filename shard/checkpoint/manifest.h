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
#include <string>
#include <string_view>
#include <vector>

#include "weft/shard_state.h"

#include "absl/status/statusor.h"
#include "shard/checkpoint/saved_tensor.h"

namespace weft {

inline constexpr int kCheckpointVersion = 1;
// Each of so many bytes of a file, and what is left, has a checksum.
inline constexpr size_t kCheckpointChunkBytes = 4 << 20;
inline constexpr size_t kRecordTextMax = 64 << 20;
inline constexpr size_t kManifestTextMax = 256 << 20;
inline constexpr int kCheckpointRanksMax = 65'536;

// A run of a program that saves checkpoints, which tells its files from those of others: drawn by chance.
using CheckpointJob = uint64_t;

// Bytes of the program's own, such as the state of a random number generator.
struct SavedValue {
  std::string name;
  int rank = -1;  // whose it is; -1: the same for all
  std::string bytes;
};

// By the name that the program has given a context, "" if there is one alone.
using SavedScalars = std::map<std::string, weft_shard_state_scalars_t>;

struct RankRecord {
  CheckpointJob job = 0;
  int64_t step = 0;
  int rank = 0;
  int ranks = 1;
  size_t file_bytes = 0;
  std::vector<uint32_t> checksums;   // CRC-32C of each chunk of the file
  std::vector<SavedTensor> tensors;  // with this rank's cut, one each
  SavedScalars scalars;
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
  std::vector<SavedValue> values;
};

std::string RecordText(const RankRecord& record);
std::string ManifestText(const Manifest& manifest);

// CORRUPT if the seal is broken or a member is missing or out of bounds; UNSUPPORTED for a newer version. `file` is for sentences.
absl::StatusOr<RankRecord> ReadRecord(std::string_view file, std::string_view text);
absl::StatusOr<Manifest> ReadManifest(std::string_view file, std::string_view text);

}  // namespace weft
