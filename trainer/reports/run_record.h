// What a run has done since it was started, as its report needs it; rank 0 keeps it.
//
//   RunRecord done;
//   done.Add(record, tok_s, ranks);      // after every step; `ranks` where figures were exchanged
//
// Thread-safety: an object belongs to one thread.
#ifndef WEFT_TRAINER_REPORTS_RUN_RECORD_H_
#define WEFT_TRAINER_REPORTS_RUN_RECORD_H_

#include <cstddef>
#include <vector>

#include "trainer/rank_figures.h"
#include "trainer/reports/line_chart.h"
#include "trainer/train_state.h"

namespace weft::trainer {

struct RunRecord {
  size_t steps = 0;
  size_t skipped = 0;  // of these
  double tokens = 0;   // of all ranks
  double seconds = 0;  // of the steps, without saves and validations
  // Of all steps since the ranks were those of the last exchange, by rank.
  std::vector<RankFigures> ranks;
  std::vector<ChartPoint> rates;      // smoothed tokens/s by step, of earlier starts, too
  std::vector<ChartPoint> loss_maxs;  // the largest mean of a rank, of this start
  StepRecord last;
  bool begin_anew = false;  // `ranks`, with the next figures

  void Add(const StepRecord& record, double tok_s, const std::vector<RankFigures>& exchanged);

  // What comes is of other ranks, maybe as many: it is not added to what these did.
  void RanksChanged() { begin_anew = true; }

  // Per step: the mean of the ranks.
  PhaseSeconds MeanPhases() const;
  // Tokens/s of all ranks, saves counted: the sum of what each has reached.
  double TokensPerSecond() const;
  // Seconds of computing in a step: the middle rank's.
  double MedianBusy() const;
  // Of one rank.
  double BusyOf(size_t rank) const;
};

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_REPORTS_RUN_RECORD_H_
