// Times one job by nccl-tests' protocol: one untimed operation, a barrier, then all iterations
// back to back on rotating buffers, the time combined over the ranks; then checked operations on
// fresh data.
//
// Thread-safety: one per rank, used by that rank's thread.
#ifndef WEFT_BENCH_WEFT_PERF_MEASURE_H_
#define WEFT_BENCH_WEFT_PERF_MEASURE_H_

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "weft/group.h"
#include "weft/work.h"

#include "bench/weft_perf/job.h"
#include "bench/weft_perf/options.h"
#include "bench/weft_perf/ranks.h"
#include "bench/weft_perf/report.h"
#include "bench/weft_perf/run.h"

namespace weft::perf {

// Monotonic.
double Seconds();

class Measure {
 public:
  // Borrows the run.
  explicit Measure(Run& run);
  ~Measure();
  Measure(const Measure&) = delete;
  Measure& operator=(const Measure&) = delete;

  // `count` untimed operations.
  Outcome WarmUp(const Job& job, uint64_t count);
  // Collective over peers; the cell is the same on all ranks. If `checked`, adds to *failed_checks
  // one for each rank and check that found a wrong element.
  Outcome Time(const Job& job, bool checked, Cell* cell, int* failed_checks);
  // GB/s at which all ranks together copy the job's bytes from send to receive buffer, rotating
  // as the job does. Collective over peers.
  Outcome CopyRate(const Job& job, double* rate);

 private:
  // How many operations can be under way without two of them sharing a buffer.
  size_t Rotation(const Job& job) const;
  size_t ShiftOf(const Job& job, uint64_t iteration) const;
  Outcome Start(const Job& job, uint64_t iteration);
  Outcome WaitOldest();
  Outcome WaitAll();
  Outcome Iterate(const Job& job, uint64_t iteration, double* excluded);
  Outcome TimeIterations(const Job& job, double* cpu_seconds, double* seconds,
                         std::vector<double>* single);
  Outcome Check(const Job& job, Cell* cell, int* failed_checks);
  Outcome SummariseIterations(const std::vector<double>& single, Cell* cell);
  void MeasureGroups(const Job& job, std::span<const double> of_ranks, Cell* cell) const;
  Outcome CallFailure(const Job* job, weft_result_t result) const;

  const Options& options_;
  const Run& run_;
  weft_group_t group_;  // what is measured
  Peers& peers_;        // all ranks of the run
  weft_call_t call_ = {};
  const weft_call_t* call_or_null_ = nullptr;
  std::deque<weft_work_t> under_way_;
  uint64_t seed_ = 0;
};

}  // namespace weft::perf

#endif  // WEFT_BENCH_WEFT_PERF_MEASURE_H_
