// Who sends how much to whom in alltoallv: by distance, or from a file.
//
//   Traffic traffic;
//   if (Outcome read = Traffic::FromEnvironment(std::getenv, &traffic); !read.ok()) ...
//   size_t bytes = traffic.Bytes(from, to, ranks, total_bytes);
//
// By distance (the default): a rank sends `total_bytes` in all; with NCCL_TESTS_ALLTOALLV_SPREAD=0
// equally much to all, with 1 in proportion to how far the receiver is ahead, nothing to itself.
// NCCL_TESTS_ALLTOALLV_MATRIX_FILE names a text file with a square of numbers: what stands in row i
// and column j is what rank i sends to rank j, in bytes, times NCCL_TESTS_ALLTOALLV_MATRIX_SCALE.
// All amounts are rounded down to 16 bytes.
//
// Thread-safety: immutable once read.
#ifndef WEFT_BENCH_WEFT_PERF_TRAFFIC_H_
#define WEFT_BENCH_WEFT_PERF_TRAFFIC_H_

#include <cstddef>
#include <string>
#include <vector>

#include "bench/weft_perf/launcher.h"
#include "bench/weft_perf/outcome.h"

namespace weft::perf {

class Traffic {
 public:
  // By distance, spread 1.
  Traffic() = default;

  // Numbers that cannot be read leave the default, as in nccl-tests, and are put into their range; a
  // matrix file that cannot be read is an error.
  static Outcome FromEnvironment(const Lookup& lookup, Traffic* traffic);
  // `text` is the file's content, `name` stands in messages.
  static Outcome FromMatrix(const std::string& text, const std::string& name, double scale,
                            Traffic* traffic);

  // Fails when a matrix is too small for the ranks, the sizes are more than one, or they do not hold
  // what it says. Always fine by distance.
  Outcome Check(size_t ranks, size_t min_bytes, size_t max_bytes) const;

  bool from_matrix() const { return dimension_ > 0; }

  // NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY.
  bool print_summary() const { return print_summary_; }

  // What `from` sends to `to`.
  size_t Bytes(size_t from, size_t to, size_t ranks, size_t total_bytes) const;

  struct Amount {
    size_t send_bytes = 0;
    size_t recv_bytes = 0;
  };

  // What one rank sends and receives in all.
  Amount Of(size_t rank, size_t ranks, size_t total_bytes) const;
  // The largest of all ranks, each by itself.
  Amount LargestOf(size_t ranks, size_t total_bytes) const;

  // Lines of NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY: each rank's amounts and rates.
  std::string SummaryText(size_t ranks, size_t total_bytes, double seconds) const;

 private:
  double spread_ = 1;
  double scale_ = 1;
  bool print_summary_ = false;
  std::string name_;  // of the matrix file
  size_t dimension_ = 0;
  std::vector<size_t> bytes_;  // [from * dimension_ + to]
};

}  // namespace weft::perf

#endif  // WEFT_BENCH_WEFT_PERF_TRAFFIC_H_
