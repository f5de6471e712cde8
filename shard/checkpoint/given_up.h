// What becomes of the parts of a checkpoint that is none: they take room that the next save needs.
//
//   if (HasGivenUp(files, place)) RemoveOwnData(files, place);
//
// Who removes a part that rank 0 commits nevertheless makes a checkpoint that is not whole. So a rank removes its own only when rank 0 has given up, or has not
// begun and will see that this rank has failed; rank 0 removes those of all when it gives up before it has begun to commit. What is left, as of ranks that
// died, goes before rank 0's next save.
//
// Thread-safety: one thread per place.
#pragma once

#include "base/files.h"
#include "shard/checkpoint/checkpoint_place.h"

namespace weft {

// On other ranks than 0. Whether rank 0 will not commit: it has said so, or has gone on to a later checkpoint. False if nobody can tell.
bool HasGivenUp(Files& files, const CheckpointPlace& place);
// On other ranks than 0. Whether there is neither rank 0's sign nor a checkpoint. Rank 0 sees all that was there before this was asked.
bool HasNotBegun(Files& files, const CheckpointPlace& place);

// Removes the tensors and the record of this rank, as well as can be, and the directory if nothing else is in it.
void RemoveOwnData(Files& files, const CheckpointPlace& place);
// On rank 0, which has said that it gives up: removes what those have written that are done, as well as can be. The others see what it has said when they are.
void RemoveFinishedData(Files& files, const CheckpointPlace& place);

}  // namespace weft
