// One committed checkpoint, opened to read any interval of any tensor from whichever ranks' files have it.
//
//   WEFT_ASSIGN_OR_RETURN(SavedCheckpoint saved, SavedCheckpoint::Open(files, path));
//   WEFT_RETURN_IF_ERROR(saved.Read({{.tensor = saved.Find("wte"), .kind = WEFT_SHARD_STATE_VALUE, .begin = 0, .count = n, .to = p}}));
//
// Everything is checked against checksums before it is believed: the manifest, records, headers, and each chunk that is read. Only files
// that have what is asked for are opened, and stay open, up to a number, for the next call.
//
// Thread-safety: one thread.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "weft/shard_state.h"

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/files.h"
#include "shard/checkpoint/manifest.h"
#include "shard/checkpoint/tensor_files.h"
#include "shard/checkpoint/value_file.h"

namespace weft {

// Elements [begin, begin + count) of a state of a tensor, which go to `to`.
struct WantedPart {
  size_t tensor = 0;  // as Find() says
  weft_shard_state_kind_t kind = WEFT_SHARD_STATE_VALUE;
  size_t begin = 0;
  size_t count = 0;
  void* to = nullptr;
};

// Told now and then of so many more bytes that were read.
using BytesDone = std::function<void(size_t bytes)>;

class SavedCheckpoint {
 public:
  static constexpr size_t kNone = static_cast<size_t>(-1);

  // Reads the manifest. `path`: of the checkpoint's directory. CORRUPT if it is not as it was written, or does not cover its tensors; UNSUPPORTED
  // for a newer version; the errors of files.
  static absl::StatusOr<SavedCheckpoint> Open(Files& files, std::string path);

  // Others' files as if they were one: of a rank for each file, with values alone, and without checksums. Their metadata are the value
  // kSafetensorsMetadata, as JSON.
  static SavedCheckpoint Of(Files& files, TensorFiles others);

  const std::string& path() const { return path_; }

  const Manifest& manifest() const { return manifest_; }

  // Its place in manifest().tensors, or kNone.
  size_t Find(std::string_view tensor) const;

  // The bytes of a value of manifest().values. CORRUPT, naming the file, if they are not as they were written.
  absl::StatusOr<std::string> Value(const SavedValue& value) const {
    return ReadValue(*files_, path_, value, value_file_bytes_);
  }

  // After an error there may be anything in the destinations. CORRUPT, naming the file and what is wrong with it.
  absl::Status Read(const std::vector<WantedPart>& wanted) const;

  // Of the elements of all tensors, in all their states.
  size_t data_bytes() const;

  // Reads and checks every byte of all ranks' files, values and config.json. `done`: of about data_bytes().
  absl::Status VerifyAll(const BytesDone& done = nullptr) const;

 private:
  SavedCheckpoint(Files& files, std::string path, Manifest manifest);

  // A piece of a wanted part, all of which one cut has.
  struct Piece {
    const WantedPart* wanted = nullptr;
    TensorCut cut;
    size_t begin = 0;  // elements of the tensor
    size_t end = 0;
  };

  class RankFile;
  absl::StatusOr<RankFile*> FileOf(int rank) const;
  absl::Status CheckFile(const std::string& name, const SealedFile& file) const;

  Files* files_;
  std::string path_;
  Manifest manifest_;
  std::vector<TensorFile> others_;          // by rank; empty if it has files and records of its own
  std::map<int, size_t> value_file_bytes_;  // by rank
  std::unordered_map<std::string, size_t> places_;               // of tensors, by name
  mutable std::map<int, std::shared_ptr<RankFile>> open_files_;  // by rank
};

}  // namespace weft
