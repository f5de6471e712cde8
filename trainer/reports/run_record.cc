#include "trainer/reports/run_record.h"

#include <algorithm>
#include <cmath>

namespace weft::trainer {

void RunRecord::Add(const StepRecord& record, double tok_s,
                    const std::vector<RankFigures>& exchanged) {
  steps++;
  if (record.skipped) skipped++;
  tokens += double(record.tokens);
  seconds += record.seconds;
  rates.push_back({double(record.step), tok_s});
  if (std::isfinite(record.loss_max)) loss_maxs.push_back({double(record.step), record.loss_max});
  last = record;
  // Ranks that have just become these may have made no step.
  if (std::ranges::all_of(exchanged, [](const RankFigures& rank) { return rank.steps == 0; }))
    return;
  if (begin_anew || exchanged.size() != ranks.size()) ranks.assign(exchanged.size(), RankFigures());
  begin_anew = false;
  for (size_t rank = 0; rank < ranks.size(); rank++) {
    RankFigures& sum = ranks[rank];
    const RankFigures& more = exchanged[rank];
    sum.steps += more.steps;
    sum.tokens += more.tokens;
    sum.phases += more.phases;
    sum.seconds += more.seconds;
    sum.machine = more.machine;
    sum.peak_bytes = std::max(sum.peak_bytes, more.peak_bytes);
  }
}

PhaseSeconds RunRecord::MeanPhases() const {
  PhaseSeconds sum;
  double count = 0;
  for (const RankFigures& rank : ranks) {
    if (rank.steps == 0) continue;
    sum += rank.phases / double(rank.steps);
    count++;
  }
  return sum / std::max(count, 1.0);
}

double RunRecord::TokensPerSecond() const {
  double sum = 0;
  for (const RankFigures& rank : ranks)
    sum += rank.TokensPerSecond();
  return sum;
}

double RunRecord::BusyOf(size_t rank) const {
  return ranks[rank].phases.Busy() / double(std::max<size_t>(ranks[rank].steps, 1));
}

double RunRecord::MedianBusy() const {
  std::vector<double> busy;
  for (size_t rank = 0; rank < ranks.size(); rank++)
    busy.push_back(BusyOf(rank));
  if (busy.empty()) return 0;
  std::sort(busy.begin(), busy.end());
  return (busy[(busy.size() - 1) / 2] + busy[busy.size() / 2]) / 2;
}

}  // namespace weft::trainer
