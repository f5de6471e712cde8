// What a job needs before its first save: that it alone saves in the directory, a number of its own, and a word on what it is about to push
// out. Rank 0 sees to it; the others are told.
//
//   SaveGround ground;
//   const absl::Status taken = TakeGround(files, proc, patience, request, &ground);
//   AgreedGround agreed = AgreedGround::Of(ground, taken);
//   ... broadcast agreed ...
//
// Thread-safety: one thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "base/files.h"
#include "base/proc.h"
#include "shard/checkpoint/catalog.h"
#include "shard/checkpoint/directory_lock.h"
#include "shard/checkpoint/patience.h"

namespace weft {

struct GroundRequest {
  std::string root;        // made if its parent is there
  uint64_t token = 0;      // of the lock
  LockSighting seen = {};  // when the job was made
  int64_t deadline_ns = 0;
  Retention retention;
  bool may_push_out = false;  // what is there is this job's, or was loaded by it
  bool refuses = false;       // to push out what is not; else a warning
};

struct SaveGround {
  std::unique_ptr<DirectoryLock> lock;
  int64_t run = -1;
};

// BAD_STATE, naming the job that saves there, or the checkpoints that would be pushed out.
absl::Status TakeGround(Files& files, Proc& proc, Patience& patience, const GroundRequest& request,
                        SaveGround* ground);

// The same in bytes for other ranks.
struct AgreedGround {
  int64_t run = -1;
  int32_t result = 0;
  std::array<char, 1024> sentence = {};  // ends with 0

  static AgreedGround Of(const SaveGround& ground, const absl::Status& taken);
  // On ranks other than 0: rank 0's.
  absl::Status status() const;
};

}  // namespace weft
