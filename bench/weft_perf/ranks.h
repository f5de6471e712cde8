// The ranks of a run: where they come from, which is a launcher's environment, processes made here (--nprocs) or threads
// of this process (-t, -g, --threads-as-ranks), and what they tell each other.
#ifndef WEFT_BENCH_WEFT_PERF_RANKS_H_
#define WEFT_BENCH_WEFT_PERF_RANKS_H_

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "weft/group.h"
#include "weft/store.h"

#include "bench/weft_perf/options.h"
#include "bench/weft_perf/outcome.h"

namespace weft::perf {

// The outcome of a failed weft call: the library's own sentence, after what was being done.
Outcome LibraryFailure(const std::string& doing, weft_result_t result);

// That, if the call failed.
Outcome Called(const char* doing, weft_result_t result);

// A failure is one line on stderr.
ExitCode Tell(const Options& options, const Outcome& outcome);

// What the ranks tell each other beside what they measure: barriers, times, counts of wrong elements, device lines. Goes
// through a weft group like any other program's traffic. One per rank, used by that rank's thread; borrows the group.
class Peers {
 public:
  // Reads rank and size.
  static Outcome Make(weft_group_t world, Peers* peers);

  int rank() const { return rank_; }

  int size() const { return size_; }

  Outcome Barrier();
  // All ranks' values, in rank order; every rank gives equally many.
  Outcome Gather(std::span<const double> mine, std::vector<double>* all);

  Outcome Gather(double mine, std::vector<double>* all) { return Gather({&mine, 1}, all); }

  // Texts are cut at 1023 bytes.
  Outcome GatherText(const std::string& mine, std::vector<std::string>* all);

 private:
  weft_group_t world_ = nullptr;
  int rank_ = 0;
  int size_ = 1;
};

// What a rank does with its group.
using RankBody = std::function<Outcome(weft_group_t group)>;

// Each of these runs `body` once per rank of this process, one thread each, and returns the worst
// exit code; every failure is one line on stderr.
ExitCode RunFromEnvironment(const Options& options, const RankBody& body);
ExitCode RunLocally(const Options& options, size_t ranks, const RankBody& body);
ExitCode RunFromId(const Options& options, const weft_unique_id_t& id, int process, int processes,
                   const RankBody& body);

// Forks options.processes children that run `body` as one job, and waits for them. When one fails
// the others get a few seconds to say what they saw. Call before anything else made a thread.
ExitCode RunProcesses(const Options& options, const RankBody& body);

}  // namespace weft::perf

#endif  // WEFT_BENCH_WEFT_PERF_RANKS_H_
