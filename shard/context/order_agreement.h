// After each step: were its calls the same on all ranks, and what is the next one of its kind to expect?
//
//   OrderAgreement order(core);
//   WEFT_RETURN_IF_ERROR(order.Agree(&result));      // in finish, when everything has ended
//
// Only what all ranks did alike may be replayed, as a schedule decides in which order operations start. A step whose
// calls were expected costs one all_gather of a digest; one whose calls were new gets a schedule of its own, for
// which all ranks must have room.
//
// Thread-safety: of the thread that makes step calls; collective.
#pragma once

#include <cstddef>
#include <vector>

#include "weft/shard.h"

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shard/context/context_core.h"

namespace weft {

class OrderAgreement {
 public:
  // `core` outlives this.
  explicit OrderAgreement(ContextCore& core) : core_(core) {}

  // Sets what `result` says of the pool and of replaying.
  absl::Status Agree(weft_shard_step_result_t* result);

 private:
  absl::StatusOr<bool> SameOnAllRanks(const std::vector<Event>& events);
  absl::StatusOr<bool> MakeRoom(size_t bytes);
  // Says once that steps need more than the budget.
  void WarnOfBudget(size_t pool_bytes);

  ContextCore& core_;
  size_t pool_bytes_ = 0;  // that all ranks have, beyond what the plan said
  bool warned_of_budget_ = false;
};

}  // namespace weft
