// How long steps and a whole run will take, worked out from steps of a smaller model that were timed (step_sample.h).
//
// Layers of a model are alike, so each part of a step is a constant and so much for each layer: a line through two counts of layers tells
// the time of any other. What was cut beside layers is scaled: computing by floating-point operations, the update by bytes of optimizer
// state, the exchange by the bytes that a rank sends, both of the library's plan (weft_shard_plan_t). More ranks on a machine than cores
// share these: all takes so much longer.
//
// Thread-safety: values and pure functions.
#ifndef WEFT_TRAINER_STEP_PREDICTION_H_
#define WEFT_TRAINER_STEP_PREDICTION_H_

#include <cstddef>

#include "trainer/config.h"
#include "trainer/sample_shape.h"
#include "trainer/step_sample.h"

namespace weft::trainer {

// Of a step of `config` on placement.ranks ranks. What links between machines add is not known, and not in it. If only products were
// tried out (sample.rounds is 0) it is the least that a step takes: its products.
StepTime PredictStep(const TrainConfig& config, const Placement& placement,
                     const StepSample& sample);

// Of a whole run: its steps, and validations and the sample at the end, if the text has as many windows as are asked for. Without
// reading text, the order-3 model and checkpoints.
struct RunSeconds {
  double steps = 0;
  double validations = 0;

  double All() const { return steps + validations; }
};

RunSeconds PredictRun(const TrainConfig& config, const Placement& placement, const StepTime& step);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_STEP_PREDICTION_H_
