// --repro over several sets of ranks: processes and threads, and each instruction set of WEFT_ISA.
// The library reads that variable once, so each set of ranks is a run of this program of its own, whose
// results come back through a pipe.
#ifndef WEFT_BENCH_WEFT_PERF_REPRO_WORLDS_H_
#define WEFT_BENCH_WEFT_PERF_REPRO_WORLDS_H_

#include <string>
#include <vector>

#include "bench/weft_perf/options.h"
#include "bench/weft_perf/outcome.h"

namespace weft::perf {

struct ReproWorld {
  bool threads = false;  // instead of the processes of --nprocs
  std::string isa;       // of WEFT_ISA
};

// `isas`: what the CPU has; `chosen`: what the user's WEFT_ISA says, nullptr or "": all.
std::vector<ReproWorld> ReproWorlds(const Options& options, const std::vector<std::string>& isas,
                                    const char* chosen);

// The instruction sets that weft has kernels for and this CPU has.
std::vector<std::string> CpuIsas();

// Runs all of them one after another, prints what they found and writes JSON.
ExitCode RunReproWorlds(const Options& options, int argc, char** argv);

}  // namespace weft::perf

#endif  // WEFT_BENCH_WEFT_PERF_REPRO_WORLDS_H_
