// One rank's run, from the devices to the last line: the groups and machines that it has, the sizes that fit into memory,
// all types, reductions and roots, and the end of the output, also when the run fails. Rank 0 prints and writes JSON; the
// others keep quiet.
//
// What is done with each type, reduction and root is an Experiment: a sweep measures all sizes, --repro compares the
// bits of all ways to get a result.
//
// Thread-safety: one per rank, used by that rank's thread. Borrows the world.
#ifndef WEFT_BENCH_WEFT_PERF_RUN_H_
#define WEFT_BENCH_WEFT_PERF_RUN_H_

#include <memory>
#include <string>
#include <vector>

#include "weft/group.h"

#include "bench/weft_perf/job.h"
#include "bench/weft_perf/options.h"
#include "bench/weft_perf/outcome.h"
#include "bench/weft_perf/output.h"
#include "bench/weft_perf/ranks.h"
#include "bench/weft_perf/traffic.h"

namespace weft::perf {

// All are collective over the ranks of the run, and the first failure ends it.
class Experiment {
 public:
  virtual ~Experiment() = default;

  // How many buffers of the largest size a rank needs at once.
  virtual size_t copies() const = 0;
  // Allocates them, and prints what stands above the rows.
  virtual Outcome SetUp() = 0;
  // All sizes of one type, reduction and root. `job` has everything but buffers and a size.
  virtual Outcome RunOne(Job job) = 0;
  // After all of them. kWrong: it all ran, and found results that are wrong.
  virtual Outcome Conclude() = 0;
};

class Run {
 public:
  Run(const Options& options, int argc, char** argv, weft_group_t world, const Peers& peers);
  ~Run();
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  // All of it, once. Collective; on failure the world is aborted so that the other ranks end as well.
  Outcome Execute();

  // For the experiment.

  // With the sizes that fit into memory, where report() has those that were asked for.
  const Options& options() const { return options_; }

  Output& output() { return output_; }

  Report& report() { return output_.report(); }

  const Traffic& traffic() const { return traffic_; }

  // All ranks of the run.
  Peers& peers() { return peers_; }

  // What is measured: the world or this rank's part of it (NCCL_TESTS_SPLIT).
  weft_group_t group() const { return group_; }

  size_t rank() const { return rank_; }

  size_t size() const { return size_; }

  // By colour; one without a split.
  const std::vector<RankGroup>& groups() const { return groups_; }

  // Room for the largest size, shifted as -u says. Memory::kShared: collective over the group.
  Outcome Allocate(Memory memory, Buffer* buffer) const;

 private:
  Outcome RunSteps(Experiment& experiment);
  Outcome SetUp(size_t copies);
  Outcome Split();
  Outcome ListDevices(std::vector<Device>* devices);
  Outcome FitSizes(size_t copies);
  Outcome RunCases(Experiment& experiment);
  size_t smallest_group() const;

  Options options_;
  weft_group_t world_;
  weft_group_t group_;
  Peers peers_;
  Output output_;
  Traffic traffic_;
  int color_ = 0;
  size_t rank_ = 0;  // in group_
  size_t size_ = 1;
  size_t ranks_on_host_ = 1;
  std::vector<RankGroup> groups_;
};

// What a rank does with its group: a Run. `world` stays the caller's.
Outcome RunRank(const Options& options, int argc, char** argv, weft_group_t world);

// Times every size, and checks its results. Borrows the run.
std::unique_ptr<Experiment> MakeSweep(Run& run);

// Does every operation in every way that one set of ranks can do it, on inputs whose reduction shows its order
// (values.h), and hashes the results. The ways: private and symmetric buffers, out of place and in place, blocking
// and asynchronous, and the algorithms that can be asked for; other sets of ranks, and other instruction sets, are
// repro.h's. With options.repro_world rank 0 writes lines for the process that started it (ReproLine), else the
// summary. Borrows the run.
std::unique_ptr<Experiment> MakeRepro(Run& run);

}  // namespace weft::perf

#endif  // WEFT_BENCH_WEFT_PERF_RUN_H_
