// What a rank needs to go on with training: how far it is, weights, optimizer state, and the record
// of the last step.
//
//   TrainState state = trainer.TakeState();       // also after a failure
//   ... another Trainer, on a group of other ranks ...
//   AgreeOnState(group, state);                   // the furthest rank's, on all
//   next_trainer.GoOnFrom(state);
//
// Thread-safety: a value.
#ifndef WEFT_TRAINER_TRAIN_STATE_H_
#define WEFT_TRAINER_TRAIN_STATE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "weft/group.h"
#include "weft/shard_state.h"

#include "trainer/outlier_guard.h"
#include "trainer/sampler.h"
#include "trainer/step_phases.h"

namespace weft::trainer {

// What one step amounted to; the fields of metrics.jsonl.
struct StepRecord {
  size_t step = 0;      // from 1
  double loss = 0;      // nats per token, mean over the global batch
  double loss_max = 0;  // the largest mean of any rank
  double grad_norm = 0;
  double lr = 0;
  double seconds = 0;  // wall time of the step
  double comm_exposed_s = 0;
  double loss_scale = 1;
  bool skipped = false;  // nothing was updated: gradients were not finite, or
  bool outlier = false;  // the step stood out (outlier_guard.h)
  double update_s = 0;   // part of `seconds`; not in metrics.jsonl
  // Of this rank. Up to kOptimizer they are `seconds`; a save comes after it. Of a step that
  // another rank or an earlier start has made there are none.
  PhaseSeconds phases;
  size_t tokens = 0;       // of all ranks
  size_t rank_tokens = 0;  // of this one, 0 as of the phases
  // Of all ranks, the same on each (stop_signals.h); not in metrics.jsonl.
  uint64_t requests = 0;
  StepStatistics statistics;  // of the steps up to this one, for --outlier-z; not in metrics.jsonl

  // Whether this rank knows what it did in the step.
  bool MadeHere() const { return phases.Busy() > 0; }
};

struct TrainState {
  static constexpr int64_t kNone = -1;    // no step has been done: initial values are as good
  static constexpr int64_t kBroken = -2;  // an update was left half done

  int64_t steps_done = kNone;
  StepRecord last;   // of the last of these
  SamplePlace next;  // of the step that follows
  weft_shard_state_scalars_t scalars = {};
  std::vector<std::byte> values;  // of all params: value, main copy and moments, each of its type
};

// Gives all ranks the state of the one that is furthest, of several that of the lowest: a death may
// come when some have done a step that others could not end. Leaves kNone if no rank has done a
// step. `state` is changed when all of it has come, so that it can be had from a rank that another
// death has left. A rank that had made the last step, too, keeps what its record has of itself; the
// others have nothing there. Throws RunFailure if no rank has a whole one. Collective.
void AgreeOnState(weft_group_t group, TrainState& state);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_TRAIN_STATE_H_
