// What a run found out: as data, in the table that weft_perf prints (table.cc), and as JSON (json.cc).
//
// The table is, column by column, that of nccl-tests: tools count columns from the right, so none is ever inserted. Its
// functions return whole lines. JSON has the layout of nccl-tests' file version 3, with its quirks: booleans are the
// strings "true" and "false", root is a string of width 6, a NaN is the string "nan".
//
// Thread-safety: values and pure functions, but for CreateReportFile.
#ifndef WEFT_BENCH_WEFT_PERF_REPORT_H_
#define WEFT_BENCH_WEFT_PERF_REPORT_H_

#include <cstddef>
#include <cstdio>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/weft_perf/operation.h"
#include "bench/weft_perf/options.h"
#include "bench/weft_perf/repro.h"

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

// Of single iterations (-I).
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

// Single iterations (-I), microseconds.
struct Iterations {
  IterationSummary summary;
  std::vector<double> times_us;                  // slowest rank of each
  std::vector<std::vector<double>> of_ranks_us;  // [rank][iteration]
};

// Ranks that measure together (NCCL_TESTS_SPLIT).
struct RankGroup {
  int color = 0;
  std::vector<size_t> ranks;  // of the run
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

// What the ranks' times become (-a): one value per rank, in rank order, not empty.
double Combine(std::span<const double> of_ranks, Average average);

// Not empty.
IterationSummary Summarise(std::span<const double> times);

// The slowest rank of each iteration; of_ranks holds `iterations` values per rank.
std::vector<double> SlowestPerIteration(std::span<const double> of_ranks, size_t iterations);

inline constexpr char kTimeFormat[] = "%Y-%m-%d %H:%M:%S";

// With as many decimals as fit into `width`: 12.34, 12345.6, 1234567, 1.2e+07.
std::string ShrinkFloat(double value, int width);

// "#  Rank  0 Group  0 Pid   4711 on   hostname device  0 [numa0:cpu1] model"
std::string DeviceLine(const Device& device);

// From the version to the devices.
std::string PreambleText(const Report& report);

// The three lines above the numbers.
std::string HeaderText(const Options& options);

std::string RowText(const Row& row, const Options& options);

// From "Out of bounds values" on.
std::string FooterText(const Report& report);

// One part of the memory line (-M) and how it is written: "1.50 GB".
std::string MemoryText(double bytes);
std::string MemoryLine(double initialisation, double buffers, double collective);

// Below this, time goes into waiting for each other and not into memory.
inline constexpr size_t kLeastBoundBytes = 4096;

// "# bound ..." for one line of the table; copy_rate in GB/s, of all ranks together.
std::string BoundHeader();
std::string BoundLine(const Row& row, const Operation& operation, size_t ranks, bool symmetric,
                      double copy_rate);

std::string JsonText(const Report& report);

// The entries of `environment` that belong in a report. The whole environment may hold secrets, so
// only WEFT_, NCCL_, UCX_, SLURM_, PMI and OMP_ variables stay, and of these not those that carry a
// secret.
std::vector<std::string> ReportedEnvironment(std::span<const std::string> environment);

// Creates `path`, or path.0, path.1... when it exists; *used is the name taken. nullptr with *used
// set when a name cannot be created.
std::FILE* CreateReportFile(const std::string& path, std::string* used);

}  // namespace weft::perf

#endif  // WEFT_BENCH_WEFT_PERF_REPORT_H_
