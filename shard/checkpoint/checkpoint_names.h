// How things are called in a directory of checkpoints:
//
//   step-00000120/              of the first run that saved here; step-00000120.r1 of the next, and so on
//     rank-00003.safetensors    what rank 3 keeps
//     values-00003.bin          its larger values, if it has any
//     done-00003.json           that all of it is on the disk
//     failed-00003              that it could not be written, and why
//     config.json               what the program says of the run
//     manifest.json             that all ranks have written: the checkpoint is one
//     pinned                    that no save removes it
//   lock.json                   who saves here, and lock-0123456789abcdef.* beside it (directory_lock.h)
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
inline constexpr const char* kLockName = "lock.json";
inline constexpr const char* kPinName = "pinned";
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
std::string ValueFileName(int rank);
std::string RecordName(int rank);
std::string FailureName(int rank);
// Of what FailureName() made; nothing of other files.
std::optional<int> RankOfFailureName(std::string_view name);
// "job-1badcafe...": rank 0 has begun this checkpoint. Others look for it to tell whether they have the same directory.
std::string JobFileName(uint64_t job);

// Whether it may be a file of a checkpoint, or of one that was begun: of all that has another name nothing is removed. Whoever
// gives a checkpoint a new kind of file adds it here.
bool IsCheckpointFile(std::string_view name);
// The rank whose tensors or record a file of that name has.
std::optional<int> RankOfDataName(std::string_view name);

// What a lock needs beside it: the text of who wants it, of who takes it from the owner with that token; and, as names alone, one that is made only
// to see the others anew, and how often the owner has said that it lives.
std::string LockWantedName(uint64_t token);
std::string LockClaimName(uint64_t owner);
std::string LockLookName(uint64_t token);
std::string LockBeatName(uint64_t token, int64_t beats);
// Of what LockBeatName() made for that token.
std::optional<int64_t> BeatsOf(std::string_view name, uint64_t token);
// The token in one of these names.
std::optional<uint64_t> TokenOfLockFile(std::string_view name);

// Whether a directory that holds these is a checkpoint.
bool HasManifest(const std::vector<std::string>& names);

// "directory/name".
std::string JoinPath(std::string_view directory, std::string_view name);

}  // namespace weft
