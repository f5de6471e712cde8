// What the ranks' times become: one time for the table (-a), and a summary of single iterations
// (-I).
#ifndef WEFT_BENCH_WEFT_PERF_STATISTICS_H_
#define WEFT_BENCH_WEFT_PERF_STATISTICS_H_

#include <span>
#include <vector>

#include "bench/weft_perf/options.h"

namespace weft::perf {

// One value per rank, in rank order, not empty.
double Combine(std::span<const double> of_ranks, Average average);

struct IterationSummary {
  double min = 0;
  double max = 0;
  double mean = 0;
  double p50 = 0;  // sorted[n / 2], the rule of nccl-tests
  double p95 = 0;  // nearest rank
  double p99 = 0;
  double deviation = 0;  // of the population

  double variation_percent() const { return mean > 0 ? deviation / mean * 100 : 0; }
};

// Not empty.
IterationSummary Summarise(std::span<const double> times);

// The slowest rank of each iteration; of_ranks holds `iterations` values per rank.
std::vector<double> SlowestPerIteration(std::span<const double> of_ranks, size_t iterations);

}  // namespace weft::perf

#endif  // WEFT_BENCH_WEFT_PERF_STATISTICS_H_
