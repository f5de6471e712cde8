// Writes what one rank has of a checkpoint: its file of tensors, that of its larger values, if it has any, and, when these are on the disk, its record. No rank waits for another, but
// for the sign of rank 0 that they write to one directory.
//
//   WEFT_RETURN_IF_ERROR(BeginCheckpoint(files, place));
//   while (!HasBegun(files, place)) ...                            // other ranks than 0, with a deadline
//   absl::Status written = WriteRank(files, place, snapshot);      // until it returns, snapshot's bytes are read
//   if (!written.ok()) ReportFailure(files, place, written);
//
// A checkpoint that could not be written leaves files that nothing refers to (given_up.h), and all that were there before as they were. A file of tensors
// that has no record is none of them: it is removed at once.
//
// Thread-safety: one thread per place.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/files.h"
#include "shard/checkpoint/checkpoint_place.h"
#include "shard/checkpoint/chunk_writer.h"
#include "shard/checkpoint/snapshot.h"

namespace weft {

// Makes the directory and, on rank 0, the sign.
absl::Status BeginCheckpoint(Files& files, const CheckpointPlace& place);
// Whether rank 0's sign is there.
absl::StatusOr<bool> HasBegun(Files& files, const CheckpointPlace& place);

// INVALID_ARGUMENT, before anything of the rank is written, if a reader would refuse it: limits.h has what there may be at most.
absl::Status WriteRank(Files& files, const CheckpointPlace& place, const Snapshot& snapshot);

// The same of bytes that are in no memory: `append` appends those of all entries, in their order.
absl::Status WriteRank(Files& files, const CheckpointPlace& place, const Snapshot& snapshot,
                       const std::function<absl::Status(ChunkWriter&)>& append);

// Leaves a word of it in the directory, as well as can be, so that the others need not wait until the deadline.
void ReportFailure(Files& files, const CheckpointPlace& place, const absl::Status& failure);
// What that rank has left: Ok if there is nothing; SYSTEM_ERROR, "rank 3 could not save: ..."; or ABORTED with the culprit if that rank could
// save, but gave up because its group has ended: then the others have no worse reason than that one.
absl::Status FailureOf(Files& files, const CheckpointPlace& place, int rank);

}  // namespace weft
