// The update of a context's params: norms over all ranks, what to do about gradients that are not finite, and the gather of
// what was updated.
//
//   OptimizerDriver optimizer(core);
//   WEFT_ASSIGN_OR_RETURN(const weft_shard_update_result_t result, optimizer.Step(update));
//
// Thread-safety: of the thread that makes step calls.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/shard.h"

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shard/context/context_core.h"
#include "shard/optimizer/nonfinite.h"

namespace weft {

class OptimizerDriver {
 public:
  // `core` outlives this.
  explicit OptimizerDriver(ContextCore& core) : core_(core) {}

  // Collective.
  absl::StatusOr<weft_shard_update_result_t> Step(const weft_shard_update_t& update);
  // What the loss is to be multiplied by.
  absl::StatusOr<double> LossScale();

 private:
  absl::Status CheckOptimizer(const char* call) const WEFT_REQUIRES(core_.mutex);
  absl::Status AddOverRanks(std::vector<int64_t>& words, Purpose::Kind purpose);
  // What to do about gradients that are not finite; Ok if the step is just skipped. Collective.
  absl::Status AnswerNonfinite(Nonfinite answer, int64_t elements);
  absl::Status UpdateParams();

  ContextCore& core_;
  NonfiniteRun nonfinite_;
};

}  // namespace weft
