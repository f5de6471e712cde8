#include "bench/weft_perf/report.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace weft::perf {
namespace {

double NearestRank(std::span<const double> sorted, size_t percent) {
  const size_t position = (sorted.size() * percent + 99) / 100;
  return sorted[std::min(sorted.size(), std::max<size_t>(position, 1)) - 1];
}

double Mean(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / values.size();
}

}  // namespace

double Combine(std::span<const double> of_ranks, Average average) {
  switch (average) {
    case Average::kMean:
      return Mean(of_ranks);
    case Average::kMin:
      return *std::min_element(of_ranks.begin(), of_ranks.end());
    case Average::kMax:
      return *std::max_element(of_ranks.begin(), of_ranks.end());
    case Average::kRank0:
      break;
  }
  return of_ranks.front();
}

IterationSummary Summarise(std::span<const double> times) {
  std::vector<double> sorted(times.begin(), times.end());
  std::sort(sorted.begin(), sorted.end());
  IterationSummary summary;
  summary.min = sorted.front();
  summary.max = sorted.back();
  summary.mean = Mean(sorted);
  summary.p50 = sorted[sorted.size() / 2];
  summary.p95 = NearestRank(sorted, 95);
  summary.p99 = NearestRank(sorted, 99);
  double squares = 0;
  for (const double time : sorted)
    squares += (time - summary.mean) * (time - summary.mean);
  summary.deviation = std::sqrt(squares / sorted.size());
  return summary;
}

std::vector<double> SlowestPerIteration(std::span<const double> of_ranks, size_t iterations) {
  std::vector<double> slowest(iterations, 0);
  for (size_t i = 0; i < of_ranks.size(); ++i) {
    slowest[i % iterations] = std::max(slowest[i % iterations], of_ranks[i]);
  }
  return slowest;
}

}  // namespace weft::perf
