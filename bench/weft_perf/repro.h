// --repro, one rank's part: does every operation in every way that one set of ranks can do it, on
// inputs whose reduction shows its order (real_values.h), and hashes the results.
//
// The ways: private and symmetric buffers, out of place and in place, blocking and asynchronous, and
// the algorithms that can be asked for. Other sets of ranks, and other instruction sets, are
// repro_worlds.h's.
#ifndef WEFT_BENCH_WEFT_PERF_REPRO_H_
#define WEFT_BENCH_WEFT_PERF_REPRO_H_

#include "weft/group.h"

#include "bench/weft_perf/options.h"
#include "bench/weft_perf/outcome.h"

namespace weft::perf {

// As RunSweep. With options.repro_world rank 0 writes lines for the process that started it (ReproLine),
// else the summary.
Outcome RunRepro(const Options& options, int argc, char** argv, weft_group_t world);

}  // namespace weft::perf

#endif  // WEFT_BENCH_WEFT_PERF_REPRO_H_
