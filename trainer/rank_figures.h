// What each rank has done in the last steps, for rank 0 to report: the ranks tell each other now
// and then, and not in every step.
//
//   RankFigures own;
//   own.Add(record);                                               // after every step
//   if (FiguresAreDue(step, steps)) all = ExchangeFigures(group, own);        // and `own` begins anew
//
// Thread-safety: values.
#ifndef WEFT_TRAINER_RANK_FIGURES_H_
#define WEFT_TRAINER_RANK_FIGURES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "weft/group.h"

#include "trainer/step_phases.h"
#include "trainer/train_state.h"

namespace weft::trainer {

// Of one rank, since the last exchange.
struct RankFigures {
  size_t steps = 0;
  size_t tokens = 0;        // that this rank has trained on
  PhaseSeconds phases;      // of all these steps
  double seconds = 0;       // of all these steps, with the saves that followed them
  size_t machine = 0;       // ranks of one have the same; numbered by its first rank's place
  uint64_t peak_bytes = 0;  // the most memory that the process ever had

  void Add(const StepRecord& record);

  // None before the first step.
  double TokensPerSecond() const { return seconds > 0 ? double(tokens) / seconds : 0; }
};

// The place of the rank that computes the longest in a step; -1: no steps.
int SlowestRank(const std::vector<RankFigures>& ranks);

// Every hundredth step, and the last one.
bool FiguresAreDue(size_t step, size_t steps);

// Those of all ranks, by rank; resets `own`. Collective.
std::vector<RankFigures> ExchangeFigures(weft_group_t group, RankFigures& own);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_RANK_FIGURES_H_
