// What the ranks of a benchmark tell each other beside what they measure: barriers, times, counts
// of wrong elements, device lines. Goes through a weft group like any other program's traffic.
//
// Thread-safety: one Peers per rank, used by that rank's thread. Borrows the group.
#ifndef WEFT_BENCH_WEFT_PERF_PEERS_H_
#define WEFT_BENCH_WEFT_PERF_PEERS_H_

#include <span>
#include <string>
#include <vector>

#include "weft/group.h"

#include "bench/weft_perf/outcome.h"

namespace weft::perf {

// The outcome of a failed weft call: the library's own sentence, after what was being done.
Outcome LibraryFailure(const std::string& doing, weft_result_t result);

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

}  // namespace weft::perf

#endif  // WEFT_BENCH_WEFT_PERF_PEERS_H_
