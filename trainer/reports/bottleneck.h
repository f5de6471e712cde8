// What holds a run up the most, and what to try, in one sentence.
//
//   BottleneckOf(config, {.phases = mean, .ranks = 8, .slowest = 3, .slowdown = 1.4, .mfu = 0.3})
//
// Thread-safety: a pure function.
#ifndef WEFT_TRAINER_REPORTS_BOTTLENECK_H_
#define WEFT_TRAINER_REPORTS_BOTTLENECK_H_

#include <cstddef>
#include <string>

#include "trainer/config.h"
#include "trainer/step_phases.h"

namespace weft::trainer {

struct SpeedFacts {
  PhaseSeconds phases;  // of a step, the mean of the ranks
  size_t ranks = 1;
  int slowest = -1;     // rank
  double slowdown = 1;  // its computing, as a multiple of the middle rank's
  double mfu = 0;       // 0: not known
};

std::string BottleneckOf(const TrainConfig& config, const SpeedFacts& facts);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_REPORTS_BOTTLENECK_H_
