// Where one rank of a run stands: the group that it measures with (NCCL_TESTS_SPLIT makes several
// of the world), the machines that the ranks are on, and how much memory each may take.
//
// Thread-safety: one per rank, used by that rank's thread. Borrows options and the world.
#ifndef WEFT_BENCH_WEFT_PERF_STAGE_H_
#define WEFT_BENCH_WEFT_PERF_STAGE_H_

#include <string>
#include <vector>

#include "weft/group.h"

#include "bench/weft_perf/options.h"
#include "bench/weft_perf/peers.h"
#include "bench/weft_perf/report.h"

namespace weft::perf {

class Stage {
 public:
  Stage(const Options& options, weft_group_t world, const Peers& peers);
  ~Stage();
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  // The following are collective over the world.

  // Splits the world as the environment says. First of all.
  Outcome Split();
  // All ranks' lines, in rank order.
  Outcome ListDevices(std::vector<Device>* devices);
  // Lowers options->max_bytes to what fits if each rank has `copies` buffers of that size; *note then
  // says so. After ListDevices.
  Outcome FitSizes(int copies, Options* options, std::string* note);

  // All ranks of the run.
  Peers& peers() { return peers_; }

  // What is measured: the world or this rank's part of it.
  weft_group_t group() const { return group_; }

  int rank() const { return rank_; }

  int size() const { return size_; }

  // By colour; one without a split.
  const std::vector<RankGroup>& groups() const { return groups_; }

  int smallest_group() const;

 private:
  const Options& options_;
  weft_group_t world_;
  weft_group_t group_;
  Peers peers_;
  int color_ = 0;
  int rank_ = 0;  // in group_
  int size_ = 1;
  int ranks_on_host_ = 1;
  std::vector<RankGroup> groups_;
};

}  // namespace weft::perf

#endif  // WEFT_BENCH_WEFT_PERF_STAGE_H_
