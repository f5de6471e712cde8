// Steps of a small model that are timed here, in this process, to predict those of a run: real steps of Trainer, with ranks that are
// threads on a group of their own, on bytes that mean nothing. About three seconds; nothing of it is left.
//
//   const StepSample sample = SampleSteps(config, {ranks, ranks, cores});
//   const StepTime step = PredictStep(config, placement, sample);            // step_prediction.h
//
// Thread-safety: one call at a time; the threads that it starts have ended when it returns.
#ifndef WEFT_TRAINER_STEP_SAMPLE_H_
#define WEFT_TRAINER_STEP_SAMPLE_H_

#include <cstddef>

#include "trainer/config.h"
#include "trainer/gemm_rate.h"
#include "trainer/sample_shape.h"

namespace weft::trainer {

// The parts of a step, or of something else that takes time.
struct StepTime {
  double compute_s = 0;  // forward and backward
  double update_s = 0;
  double exposed_s = 0;  // waiting for other ranks

  double Seconds() const { return compute_s + update_s + exposed_s; }
};

struct StepSample {
  SampleShape shape;
  GemmRate gemm;         // of a rank while all others multiply too
  StepTime step;         // of the model with shape.layers
  StepTime fewer;        // with shape.fewer_layers, if that is not 0
  StepTime twice;        // with shape.layers and two micro-batches, if the run has several
  size_t rounds = 0;     // 0: the model is too large to be tried out, and only products were
  double seconds = 0;    // for all of it
  double cpu_share = 1;  // of the time in which a rank did not wait for others: it had a core
};

// Throws RunFailure if memory runs out, or if a rank fails.
StepSample SampleSteps(const TrainConfig& config, const Placement& placement);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_STEP_SAMPLE_H_
