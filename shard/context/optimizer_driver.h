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
#include "shard/optimizer/param_groups.h"

namespace weft {

class OptimizerDriver {
 public:
  // `core` outlives this.
  explicit OptimizerDriver(ContextCore& core) : core_(core) {}

  // The norm of this step's gradients. Collective.
  absl::StatusOr<weft_shard_norm_t> GradientNorm();
  // Collective.
  absl::StatusOr<weft_shard_update_result_t> Step(const weft_shard_update_t& update);
  // In place of Step: nothing is updated, and the loss scale stays. Collective.
  absl::Status DropGradients();
  // The step is about to end: BAD_STATE if the caller has left out its own update.
  absl::Status EndCallersTurn();
  // What the loss is to be multiplied by.
  absl::StatusOr<double> LossScale();
  // The numbers of a param group, before and after finalize.
  absl::StatusOr<OptimizerGroup> Group(int group) const;
  // Changes some of them between steps.
  absl::Status SetGroup(int group, const weft_shard_param_group_t& change);

  NonfiniteRun& nonfinite_run() { return nonfinite_; }

  // An update failed after it had changed something of this rank's params or state, and before it had changed all.
  bool torn() const { return torn_; }

 private:
  absl::Status CheckOptimizer(const char* call) const WEFT_REQUIRES(core_.mutex);
  // The scale that gradients have; 1 without an optimizer.
  double ScaleOfGradients() const;
  // This rank's share of the sums, as words to be added over ranks: the squares, then how many are not finite.
  absl::StatusOr<std::vector<int64_t>> OwnSums() const;
  absl::Status AddOverRanks(std::vector<int64_t>& words, Purpose::Kind purpose, const char* call);
  // Adds `words`, [kNormWords], over ranks. Not Ok if these make other updates, nullptr being none, or have other numbers.
  // Returns what they request.
  absl::StatusOr<uint64_t> Agree(const weft_shard_update_t* update,
                                 const weft_shard_state_scalars_t& scalars,
                                 std::vector<int64_t>& words);
  // What to do about gradients that are not finite; Ok if the step is just skipped. Collective.
  absl::Status AnswerNonfinite(Nonfinite answer, int64_t elements);
  absl::Status UpdateParams(double learning_rate, double gradient_factor);

  ContextCore& core_;
  NonfiniteRun nonfinite_;
  int64_t found_nonfinite_ = 0;  // by GradientNorm in this step
  bool torn_ = false;
};

}  // namespace weft
