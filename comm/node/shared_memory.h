// The blocks that all ranks of one group have: taken from the heap of rank 0, which all have mapped, and agreed upon by one
// small all_gather of the group, as the segment of a split is.
//
//   WEFT_ASSIGN_OR_RETURN(void* const memory, shared.Allocate(bytes));   // both collective, inside the group's gate
//   WEFT_RETURN_IF_ERROR(shared.Free(memory));
//   ...
//   for (void* const block : shared.TakeAll()) ...                       // the group is closing
//
// Errors that all ranks can see in what was gathered leave the group as it was. If the gathering itself fails, rank
// 0 cannot know who has the block: it keeps it until the group is closed.
// Thread-safety: any thread. By address, for all groups of this process: shared_blocks.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "comm/group/process_group.h"
#include "comm/node/heap.h"
#include "comm/node/node_state.h"

namespace weft {

class SharedMemory {
 public:
  // All outlive the object; of `state` only the constants are used.
  SharedMemory(ProcessGroup& group, const NodeState& state, const std::string& group_name,
               Heap& heap)
      : group_(group), state_(state), group_name_(group_name), heap_(heap) {}

  absl::StatusOr<void*> Allocate(size_t bytes);
  absl::Status Free(void* memory);

  // What was not freed, as far as it is this rank's own. Rank 0's blocks go when the others have left; the caller of any
  // rank may not use its view any more.
  std::vector<void*> TakeAll();

  // Bytes of the blocks that this rank owns.
  uint64_t bytes() const;

 private:
  struct Offer;

  absl::Status Compare(const std::vector<Offer>& offers) const;
  absl::StatusOr<std::vector<Offer>> Exchange(const Offer& mine);
  void Hold(void* memory, size_t bytes);
  void Drop(void* memory);

  ProcessGroup& group_;
  const NodeState& state_;
  const std::string& group_name_;
  Heap& heap_;
  mutable Mutex mutex_;
  std::map<void*, size_t> blocks_ WEFT_GUARDED_BY(mutex_);  // bytes, by address here
};

}  // namespace weft
