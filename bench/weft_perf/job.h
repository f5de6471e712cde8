// One operation at one size: which call it is, where its buffers stand, what goes in and what must
// come out.
//
// Thread-safety: one per rank, used by that rank's thread. Borrows buffers.
#ifndef WEFT_BENCH_WEFT_PERF_JOB_H_
#define WEFT_BENCH_WEFT_PERF_JOB_H_

#include <cstddef>
#include <cstdint>

#include "weft/group.h"
#include "weft/work.h"

#include "bench/weft_perf/buffers.h"
#include "bench/weft_perf/operation.h"
#include "bench/weft_perf/pattern.h"

namespace weft::perf {

struct Job {
  const Operation* operation = nullptr;
  const ElementType* type = nullptr;
  const Reduction* reduction = nullptr;  // nullptr: the operation does not reduce
  int root = 0;
  int rank = 0;
  int ranks = 1;
  bool in_place = false;
  Extent extent;
  Buffer* send = nullptr;
  Buffer* recv = nullptr;
  size_t offset = 0;  // of both, from -u, bytes

  unsigned char* send_data(size_t shift) const;
  unsigned char* recv_data(size_t shift) const;

  // Calls the library; buffers stand `shift` bytes further on. work == nullptr: until it is done.
  weft_result_t Start(weft_group_t group, const weft_call_t* call, size_t shift,
                      weft_work_t* work) const;

  // Fills the buffers for one checked operation at shift 0, the output with canaries.
  void Prepare(uint64_t seed) const;
  // Elements of this rank that are not what they must be, inputs that changed and canaries that
  // did.
  size_t CountWrong(uint64_t seed) const;

 private:
  DataKey Key(uint64_t seed) const;
  size_t CountWrongOutput(const DataKey& key) const;
  size_t CountChangedInput(const DataKey& key) const;
};

}  // namespace weft::perf

#endif  // WEFT_BENCH_WEFT_PERF_JOB_H_
