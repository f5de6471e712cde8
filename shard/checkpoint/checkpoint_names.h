// How things are called in a directory of checkpoints:
//
//   step-00000120/              of the first run that saved here; step-00000120.r1 of the next, and so on
//     rank-00003.safetensors    what rank 3 keeps
//     done-00003.json           that it is on the disk
//     failed-00003              that it could not be written, and why
//     config.json               what the program says of the run
//     manifest.json             that all ranks have written: the checkpoint is one
//
// A run begins a number of its own, so that it never writes where an earlier one has, and so that the latest is known by names: the one of
// the highest run, and of these of the highest step.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft {

inline constexpr const char* kManifestName = "manifest.json";
inline constexpr const char* kConfigName = "config.json";
inline constexpr int64_t kCheckpointStepMax = int64_t{1} << 53;

// Later ones are greater.
struct CheckpointName {
  int64_t run = 0;
  int64_t step = 0;

  bool operator==(const CheckpointName&) const = default;

  bool operator<(const CheckpointName& other) const {
    return std::pair(run, step) < std::pair(other.run, other.step);
  }
};

std::string DirectoryName(const CheckpointName& name);
// Of what DirectoryName() made; nothing of other files.
std::optional<CheckpointName> ParseDirectoryName(std::string_view text);

std::string TensorFileName(int rank);
std::string RecordName(int rank);
std::string FailureName(int rank);
// Of what FailureName() made; nothing of other files.
std::optional<int> RankOfFailureName(std::string_view name);
// "job-1badcafe...": rank 0 has begun this checkpoint. Others look for it to tell whether they have the same directory.
std::string JobFileName(uint64_t job);

// Whether a directory that holds these is a checkpoint.
bool HasManifest(const std::vector<std::string>& names);

// "directory/name".
std::string JoinPath(std::string_view directory, std::string_view name);

}  // namespace weft
