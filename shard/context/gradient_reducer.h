// The gradients of a step, from grad_ready to finish: settled, reduced in the order that all ranks share, and accumulated over
// micro-batches.
//
//   reducer.BeginMicrobatch(index, last);
//   WEFT_RETURN_IF_ERROR(reducer.Settle(params));   // their gradients are there, or known to be missing
//   ... EndMicrobatch ...
//   WEFT_RETURN_IF_ERROR(reducer.Finish());
//
// REDUCE_EVERY folds: the reduced gradients of a micro-batch are moved to the accumulated ones when the next backward
// begins, so that their reductions overlap with its forward too.
//
// Thread-safety: members that require the mutex are called with it; the others wait, and are for the one thread that makes
// step calls.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shard/context/context_core.h"

namespace weft {

class GradientReducer {
 public:
  // `core` outlives this.
  explicit GradientReducer(ContextCore& core) : core_(core) {}

  // Says to the analysis, which cannot see it, that the mutex which the caller holds is the one that is required here.
  void AssertMutexHeld() const WEFT_THREAD_ANNOTATION(assert_capability(core_.mutex)) {}

  void BeginStep();
  void BeginMicrobatch(int index, bool last) WEFT_REQUIRES(core_.mutex);

  // Nothing more of these gradients comes in this micro-batch: starts the reductions that this completes.
  absl::Status Settle(const std::vector<int>& params) WEFT_REQUIRES(core_.mutex);
  // Starts the reductions of complete buckets whose turn it is.
  absl::Status StartComplete() WEFT_REQUIRES(core_.mutex);

  // REDUCE_EVERY: folds the micro-batch that has ended, if that is still to be done.
  absl::Status Fold();
  // After Settle of all: true if the micro-batch is to be folded at once, as nothing overlaps.
  absl::StatusOr<bool> EndMicrobatch() WEFT_REQUIRES(core_.mutex);
  // Waits for the unit's reductions.
  absl::Status WaitForUnit(int unit);
  // Waits for all reductions of the step and adds what was accumulated.
  absl::Status Finish();

  // By the thread that makes step calls, for reductions of this step.
  int64_t waited_ns() const { return waited_ns_; }

  // From the first reduction's start to the last one's end; 0 if there was none.
  int64_t busy_ns() const WEFT_REQUIRES(core_.mutex);

  // Gradients begin anew: of a bucket that has just got its place, or all that are whole at rest.
  void ClearBucket(int bucket);
  void ClearWhole();

 private:
  bool ReducesThisMicrobatch() const WEFT_REQUIRES(core_.mutex);
  // BAD_STATE if the unit's reductions are not under way: waiting for them might never end.
  absl::Status CheckUnderWay(int unit) const WEFT_REQUIRES(core_.mutex);
  absl::Status Start(int bucket) WEFT_REQUIRES(core_.mutex);
  void ZeroIfUnset(int param) WEFT_REQUIRES(core_.mutex);
  // Waits for all of them, also after one failed. Returns the first failure.
  absl::Status WaitForStarted(const std::vector<StartedReduce>& started);
  absl::Status WaitForAll();
  // accumulated += grad, or accumulated = grad for the first; or grad += accumulated at the end.
  bool FoldsReduced(const Space& space) const;
  void AddToAccumulated() const;
  void AddFromAccumulated() const;

  ContextCore& core_;
  bool fold_pending_ WEFT_GUARDED_BY(core_.mutex) = false;
  // Only for the thread that makes step calls.
  int folded_microbatches_ = 0;
  int64_t waited_ns_ = 0;
  int64_t last_ended_ns_ = 0;  // completion of the last reduction; 0 if there was none
};

}  // namespace weft
