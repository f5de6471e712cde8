// Makes a checkpoint of what all ranks have written: on rank 0, in a directory that all of them write to.
//
//   Committer committer(files, place);
//   while (true) {
//     WEFT_ASSIGN_OR_RETURN(const bool complete, committer.Look());      // an error: a rank has failed
//     if (complete) break;
//     ... wait a little; at the deadline committer.Missing() says who has not written ...
//   }
//   WEFT_RETURN_IF_ERROR(committer.Commit(config));       // from here on it is the latest
//
// Thread-safety: one thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/files.h"
#include "shard/checkpoint/checkpoint_place.h"
#include "shard/checkpoint/manifest.h"

namespace weft {

class Committer {
 public:
  // `files` outlives it. `place`: of rank 0.
  Committer(Files& files, CheckpointPlace place);

  // True if all records are there. An error if a rank says that it could not write, or if what one has written is not of this checkpoint.
  absl::StatusOr<bool> Look();

  // "rank 3", "ranks 3, 5 and 7 others": whose records have not been seen.
  std::string Missing() const;

  // INVALID_ARGUMENT if ranks disagree about a tensor, if some elements were written by nobody, or if a reader would refuse the manifest, which is not
  // written then; the errors of files. After an error there is no checkpoint. `config`: written as config.json unless it is empty.
  absl::Status Commit(std::string_view config);

  // Whether the manifest may be there: not before Commit() was about to write it.
  bool may_be_committed() const { return may_be_committed_; }

 private:
  struct Seen {
    RankRecord record;
    SealedFile file;
  };

  absl::Status Take(int rank, const std::string& text);
  absl::StatusOr<Manifest> Merge();

  Files& files_;
  const CheckpointPlace place_;
  std::vector<std::optional<Seen>> seen_;  // by rank
  bool may_be_committed_ = false;
};

}  // namespace weft
