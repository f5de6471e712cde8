// Groups that were noted in a batch, made together when it ends: one thread may be several ranks of them.
//
//   std::vector<GroupMaking> makings;      // {.lane = parent, .make = ..., .group = &comms[2]}
//   WEFT_RETURN_IF_ERROR(MakeTogether(std::move(makings)));
//
// Each lane has a thread of its own, as makings wait for each other; within a lane they follow each other. The caller waits for
// them, and its interrupt check ends all waits.
//
// Thread-safety: any thread.
#pragma once

#include <functional>
#include <vector>

#include "weft/types.h"

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace weft {

struct GroupMaking {
  // Those of one lane are calls on one group, whose order counts. nullptr: a lane of its own.
  const void* lane = nullptr;
  std::function<absl::StatusOr<weft_group_t>()> make;  // NULL for a rank of no part
  weft_group_t* group = nullptr;                       // where the handle is put
};

// Sets all groups, or none. When one fails the others are given up, and its failure is returned. INTERRUPTED.
absl::Status MakeTogether(std::vector<GroupMaking> makings);

}  // namespace weft
