// Where the ranks of a run come from: a launcher's environment, processes made here (--nprocs),
// threads of this process (-t, -g, --threads-as-ranks).
#ifndef WEFT_BENCH_WEFT_PERF_RANKS_H_
#define WEFT_BENCH_WEFT_PERF_RANKS_H_

#include <functional>

#include "weft/group.h"
#include "weft/store.h"

#include "bench/weft_perf/options.h"
#include "bench/weft_perf/outcome.h"

namespace weft::perf {

// What a rank does with its group.
using RankBody = std::function<Outcome(weft_group_t group)>;

// Each of these runs `body` once per rank of this process, one thread each, and returns the worst
// exit code; every failure is one line on stderr.
ExitCode RunFromEnvironment(const Options& options, const RankBody& body);
ExitCode RunLocally(const Options& options, int ranks, const RankBody& body);
ExitCode RunFromId(const Options& options, const weft_unique_id_t& id, int process, int processes,
                   const RankBody& body);

// Forks options.processes children that run `body` as one job, and waits for them. When one fails
// the others get a few seconds to say what they saw. Call before anything else made a thread.
ExitCode RunProcesses(const Options& options, const RankBody& body);

}  // namespace weft::perf

#endif  // WEFT_BENCH_WEFT_PERF_RANKS_H_
