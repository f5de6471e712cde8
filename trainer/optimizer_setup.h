// The optimizer of a run as weft's shard context takes it: kind, numbers, loss scale.
//
//   const weft_optimizer_config_t optimizer = OptimizerOf(config);
//
// Thread-safety: pure.
#ifndef WEFT_TRAINER_OPTIMIZER_SETUP_H_
#define WEFT_TRAINER_OPTIMIZER_SETUP_H_

#include <string>

#include "weft/shard_step.h"

#include "trainer/config.h"

namespace weft::trainer {

weft_optimizer_config_t OptimizerOf(TrainConfig config);

// Numbers that were not given, as the kind has them: beta2 0.95 of AdamW, 0.99 of Lion, 0.999 of LAMB; momentum 0 of SGD, 0.9 of LARS,
// 0.95 of Muon; epsilon 1e-6 of LAMB, else 1e-8; a dynamic loss scale where something is float16, else none.
void ChooseOptimizerNumbers(TrainConfig& config);

// "dynamic from 65536", "128", or "" without one.
std::string DescribeLossScale(const TrainConfig& config);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_OPTIMIZER_SETUP_H_
