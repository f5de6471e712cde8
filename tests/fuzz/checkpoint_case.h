// Bytes of any kind as files of a checkpoint, and what the reader makes of them: an error, or exactly what the files say.
//
//   CheckpointCase checkpoint;
//   for (const std::string& input : checkpoint.Seeds()) {
//     const CheckpointOutcome outcome = checkpoint.Try(input);
//     EXPECT_EQ(outcome.wrong, "");
//   }
//
// An input is a byte of flags and then a piece for each file that it replaces, in the order of CheckpointFile, with a byte 0xff between two
// pieces; all other files are those of a small whole checkpoint of two ranks. Unless it is kVerbatim, a piece is the text of a manifest or a
// record before its seal, or the JSON of a safetensors header, and what the texts say of the size and the checksum of a file as it was, they
// say of it as it is now: so the reader gets to the rest of what they say.
//
// Thread-safety: one thread.
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "shard/checkpoint/manifest.h"
#include "tests/shard/checkpoint/made_up_state.h"

namespace weft::test {

enum class CheckpointFile { kManifest, kRecord0, kRecord1, kTensors0, kTensors1 };

inline constexpr int kCheckpointFiles = 5;

// The bit of the flags that says that a file is replaced.
constexpr unsigned FlagOf(CheckpointFile file) {
  return 1u << static_cast<int>(file);
}

// Pieces are whole files, and nothing is made right.
inline constexpr unsigned kVerbatim = 1u << kCheckpointFiles;

// All files are verified, and the values exported, and nothing is restored.
inline constexpr unsigned kVerify = 2 * kVerbatim;
// A part of the tensors is restored, that crosses the ranks' cuts; else all of them.
inline constexpr unsigned kPart = 4 * kVerbatim;

struct CheckpointOutcome {
  std::string wrong;      // empty: as it should be
  bool opened = false;    // the manifest was taken
  bool verified = false;  // and all of the files
  bool restored = false;  // all state, or, if it did not fit, values alone
};

class CheckpointCase {
 public:
  CheckpointCase();

  // Whole checkpoints, with each file replaced by what it was; the last two are names.
  std::vector<std::string> Seeds() const;
  // The piece of a file that Seeds() has.
  std::string Piece(CheckpointFile file, bool verbatim) const;

  // Reads the checkpoint that the input makes.
  CheckpointOutcome Try(std::string_view input) const;

  // As MutateJson().
  static std::string Mutate(std::string input, std::mt19937_64& random);

 private:
  using Contents = std::map<std::string, std::string, std::less<>>;  // by path

  Contents Make(const std::vector<std::string>& pieces, unsigned flags) const;
  CheckpointOutcome Look(const Contents& contents, unsigned flags) const;

  MadeUpModel model_;
  Contents whole_;
};

}  // namespace weft::test
