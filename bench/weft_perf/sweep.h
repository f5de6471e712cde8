// One rank's whole run: devices, buffers, all sizes, types, reductions and roots, the end of the
// table. Rank 0 prints and writes JSON; the others measure and keep quiet.
#ifndef WEFT_BENCH_WEFT_PERF_SWEEP_H_
#define WEFT_BENCH_WEFT_PERF_SWEEP_H_

#include "weft/group.h"

#include "bench/weft_perf/options.h"
#include "bench/weft_perf/outcome.h"

namespace weft::perf {

// `world` has one rank for each of the run; it stays the caller's. Collective. On failure the
// groups are aborted so that the other ranks end as well.
Outcome RunSweep(const Options& options, int argc, char** argv, weft_group_t world);

}  // namespace weft::perf

#endif  // WEFT_BENCH_WEFT_PERF_SWEEP_H_
