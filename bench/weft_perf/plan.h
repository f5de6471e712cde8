// What one run goes through: sizes, reductions and roots.
#ifndef WEFT_BENCH_WEFT_PERF_PLAN_H_
#define WEFT_BENCH_WEFT_PERF_PLAN_H_

#include <cstddef>
#include <string>
#include <vector>

#include "bench/weft_perf/options.h"

namespace weft::perf {

// The size after `bytes`; past the end instead of around it.
size_t NextSize(const Options& options, size_t bytes);

// A line, in the words of nccl-tests, if the operation cannot be run with `ranks` ranks; else "".
std::string WhySkipped(const Options& options, int ranks);

// {nullptr} for an operation that has none.
std::vector<const Reduction*> ReductionsOf(const Options& options);

// {0} for an operation that has none; `ranks`: of the smallest group that measures.
std::vector<int> RootsOf(const Options& options, int ranks);

}  // namespace weft::perf

#endif  // WEFT_BENCH_WEFT_PERF_PLAN_H_
