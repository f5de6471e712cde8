// Where the time of a step goes, as an SVG picture: a bar for each rank, in parts.
//
//   const std::string svg = PhaseBarsSvg({{"mean", mean}, {"rank 0", first}, {"rank 3", slowest}});
//
// Thread-safety: pure functions.
#ifndef WEFT_TRAINER_REPORTS_PHASE_BARS_H_
#define WEFT_TRAINER_REPORTS_PHASE_BARS_H_

#include <string>
#include <vector>

#include "trainer/step_phases.h"

namespace weft::trainer {

struct PhaseBar {
  std::string label;
  PhaseSeconds phases;  // of a step
};

// All bars have one scale.
std::string PhaseBarsSvg(const std::vector<PhaseBar>& bars);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_REPORTS_PHASE_BARS_H_
