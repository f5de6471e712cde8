// One operation at one size: which call it is, its buffers, what goes in and what must come out.
//
//   job.SetSize(bytes);
//   job.Prepare(seed);
//   job.Start(group, nullptr, 0, nullptr);
//   wrong = job.CountWrong(seed);
//
// Thread-safety: one per rank, used by that rank's thread. A job borrows buffers and traffic.
#ifndef WEFT_BENCH_WEFT_PERF_JOB_H_
#define WEFT_BENCH_WEFT_PERF_JOB_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "weft/group.h"
#include "weft/work.h"

#include "bench/weft_perf/operation.h"
#include "bench/weft_perf/options.h"
#include "bench/weft_perf/outcome.h"
#include "bench/weft_perf/pattern.h"
#include "bench/weft_perf/traffic.h"

namespace weft::perf {

// A send or receive buffer of maxbytes with room around it for canaries. Owns the memory.
class Buffer {
 public:
  static constexpr size_t kCanaryBytes = 64;

  Buffer() = default;
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  // All pages are touched: untouched ones would read as one shared page of zeros. Memory::kShared: collective over
  // `group`, with which the memory goes.
  Outcome Allocate(size_t bytes, size_t shift_bytes_max, Memory memory,
                   weft_group_t group = nullptr);

  // Page aligned; [data(), data() + bytes + shift_bytes_max) is the operation's.
  unsigned char* data() const { return block_ + kPage; }

  // What Allocate took.
  size_t allocated() const { return allocated_; }

  // Puts canaries right before and after [offset, offset + bytes), and counts those that changed.
  void SetCanaries(size_t offset, size_t bytes);
  size_t ChangedCanaries(size_t offset, size_t bytes) const;

 private:
  static constexpr size_t kPage = 4096;

  unsigned char* block_ = nullptr;
  size_t allocated_ = 0;
  Memory memory_ = Memory::kPrivate;
};

// Elements that this rank sends to and gets from each rank, and where they stand (alltoallv).
struct Blocks {
  std::vector<size_t> in_counts;
  std::vector<size_t> in_displacements;
  std::vector<size_t> out_counts;
  std::vector<size_t> out_displacements;
};

// A run of elements of the output and where their values come from.
struct Piece {
  size_t from = 0;   // the rank whose input it is; kReduced: the reduction of all ranks' inputs
  size_t first = 0;  // the first element of those inputs
  size_t at = 0;     // where it stands in the output, elements
  size_t count = 0;

  static constexpr size_t kReduced = SIZE_MAX;
};

struct Job {
  const Operation* operation = nullptr;
  const ElementType* type = nullptr;
  const Reduction* reduction = nullptr;  // nullptr: the table shows none
  weft_op_t op = WEFT_SUM;               // what the library is called with
  size_t root = 0;
  size_t rank = 0;
  size_t ranks = 1;
  bool in_place = false;
  size_t bytes = 0;  // of the command line; SetSize sets it and what follows from it
  Extent extent;
  Buffer* send = nullptr;
  Buffer* recv = nullptr;
  size_t offset = 0;                 // of both, from -u, bytes
  const Traffic* traffic = nullptr;  // alltoallv
  bool shared_result = false;        // recv is one for all ranks: each prepares a part of it
  Blocks blocks;

  void SetSize(size_t wanted_bytes);

  unsigned char* send_data(size_t shift) const;
  unsigned char* recv_data(size_t shift) const;

  // Calls the library; buffers stand `shift` bytes further on. work == nullptr: until it is done.
  // Otherwise *work may stay nullptr: hypercube's rounds follow each other, and end here.
  weft_result_t Start(weft_group_t group, const weft_call_t* call, size_t shift,
                      weft_work_t* work) const;

  // This rank's result in order of `at`; empty where a rank gets none.
  std::vector<Piece> Result() const;

  // Fills the buffers for one checked operation at shift 0, the output with canaries.
  void Prepare(uint64_t seed) const;
  // As Prepare, with inputs whose elements do not depend on the size: each block of the input that
  // goes to one rank begins at a place of `input` that only depends on that rank.
  void PrepareBlocks(const Pattern& input) const;
  // Elements of this rank that are not what they must be, and bytes beside them and beside the
  // buffers that changed.
  size_t CountWrong(uint64_t seed) const;
  // Only the latter.
  size_t CountChangedCanariesAround() const;

  DataKey Key(uint64_t seed) const;

 private:
  size_t recv_region() const { return in_place ? extent.bytes() : extent.recv_bytes; }

  void SetCanaries() const;
  void SetSharedCanaries() const;
  weft_result_t RunHyperCube(weft_group_t group, const weft_call_t* call, size_t shift) const;
  size_t CountWrongPieces(const DataKey& key) const;
  size_t CountTouched(const Pattern& input, size_t first, size_t last) const;
};

}  // namespace weft::perf

#endif  // WEFT_BENCH_WEFT_PERF_JOB_H_
