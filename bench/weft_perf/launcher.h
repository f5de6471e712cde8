// What launchers say in the environment about the number of ranks, and nccl-tests' own variables.
//
// Looks variables up through a function, so that tests need not change the environment.
#ifndef WEFT_BENCH_WEFT_PERF_LAUNCHER_H_
#define WEFT_BENCH_WEFT_PERF_LAUNCHER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench/weft_perf/options.h"
#include "bench/weft_perf/outcome.h"

namespace weft::perf {

// The variable's text, or nullptr.
using Lookup = std::function<const char*(const char* name)>;

// One launcher's word on how many processes it started.
struct LauncherSize {
  std::string variable;
  int size;
};

std::vector<LauncherSize> LauncherSizes(const Lookup& lookup);

// Fails when a launcher started several processes and the options start ranks as well: each of its
// processes would run a benchmark of its own.
Outcome CheckLauncher(const std::vector<LauncherSize>& sizes, const Options& options);

// Fails when a launcher started another number of processes than found each other.
Outcome CheckWorldSize(const std::vector<LauncherSize>& sizes, int processes);

// NCCL_TESTS_SPLIT_MASK (hexadecimal), else NCCL_TESTS_SPLIT ("MOD 2", "AND 0x1", "DIV 4", "& 1"...):
// processes of one colour measure as one group. On success *color is that of `process`, 0 without
// the variables.
Outcome SplitColor(const Lookup& lookup, int process, int* color);

// NCCL_TESTS_MIN_BW, or -1 when it is not set.
double LeastBandwidth(const Lookup& lookup);

}  // namespace weft::perf

#endif  // WEFT_BENCH_WEFT_PERF_LAUNCHER_H_
