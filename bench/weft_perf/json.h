// A report as JSON in the layout of nccl-tests' file version 3, with its quirks: booleans are the
// strings "true" and "false", root is a string of width 6, a NaN is the string "nan".
#ifndef WEFT_BENCH_WEFT_PERF_JSON_H_
#define WEFT_BENCH_WEFT_PERF_JSON_H_

#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include "bench/weft_perf/report.h"

namespace weft::perf {

std::string JsonText(const Report& report);

// The entries of `environment` that belong in a report. The whole environment may hold secrets, so
// only WEFT_, NCCL_, UCX_, SLURM_, PMI and OMP_ variables stay, and of these not those that carry a
// secret.
std::vector<std::string> ReportedEnvironment(std::span<const std::string> environment);

// Creates `path`, or path.0, path.1... when it exists; *used is the name taken. nullptr with *used
// set when a name cannot be created.
std::FILE* CreateReportFile(const std::string& path, std::string* used);

}  // namespace weft::perf

#endif  // WEFT_BENCH_WEFT_PERF_JSON_H_
