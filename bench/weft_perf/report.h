// What a run found out, as data; table.h prints it and json.h writes it.
#ifndef WEFT_BENCH_WEFT_PERF_REPORT_H_
#define WEFT_BENCH_WEFT_PERF_REPORT_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "bench/weft_perf/operation.h"
#include "bench/weft_perf/options.h"
#include "bench/weft_perf/repro_result.h"
#include "bench/weft_perf/statistics.h"

namespace weft::perf {

// One rank's line under "Using devices".
struct Device {
  int rank = 0;
  int group = 0;  // colour of NCCL_TESTS_SPLIT
  int pid = 0;
  std::string host;   // up to the first dot
  int device = 0;     // number of the rank on its host
  std::string place;  // "numa0:cpu1"
  std::string model;  // of the CPU
};

// Single iterations (-I), microseconds.
struct Iterations {
  IterationSummary summary;
  std::vector<double> times_us;                  // slowest rank of each
  std::vector<std::vector<double>> of_ranks_us;  // [rank][iteration]
};

// Ranks that measure together (NCCL_TESTS_SPLIT).
struct RankGroup {
  int color = 0;
  std::vector<int> ranks;  // of the run
};

// What one of several groups measured.
struct GroupCell {
  double time_us = 0;
  Bandwidth bandwidth;
};

// One half of a line of the table.
struct Cell {
  double time_us = 0;
  Bandwidth bandwidth;
  std::optional<double> wrong;  // empty: not checked
  std::optional<Iterations> iterations;
  std::vector<GroupCell> groups;  // of each, when there are several
};

struct Row {
  size_t bytes = 0;
  size_t count = 0;
  std::string type;
  std::string reduction;
  int root = -1;
  Cell out_of_place;
  Cell in_place;
  std::string time_of_day;
};

// The end of the table.
struct Totals {
  int out_of_bounds = 0;  // rank and check pairs with a wrong result
  double bus_bandwidth = 0;
  std::vector<double> group_bandwidths;  // of each group, when there are several
  double least_bandwidth = -1;           // NCCL_TESTS_MIN_BW, -1: unchecked

  bool slow() const { return least_bandwidth != -1 && bus_bandwidth < least_bandwidth * 0.9; }
};

struct Report {
  Options options;
  std::string version;  // of weft_perf
  int header_version = 0;
  int library_version = 0;
  std::string start_time;
  std::string end_time;
  std::vector<std::string> arguments;
  std::vector<std::string> environment;
  std::vector<Device> devices;
  std::vector<RankGroup> groups;
  std::string governor;  // of the CPU's frequency, empty: unknown
  std::vector<Row> rows;
  std::optional<Totals> totals;       // empty: the run failed, or did not measure
  std::optional<ReproSummary> repro;  // --repro
  std::vector<std::string> errors;
};

}  // namespace weft::perf

#endif  // WEFT_BENCH_WEFT_PERF_REPORT_H_
