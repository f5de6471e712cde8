// How far memory itself would let an operation go (--bound).
//
// An operation on one node must read and write every byte a certain number of times; with the
// rate at which all ranks together can copy memory, that gives the best bus bandwidth there can
// be. A share of it can be compared between machines, bandwidth cannot.
#ifndef WEFT_BENCH_WEFT_PERF_BOUND_H_
#define WEFT_BENCH_WEFT_PERF_BOUND_H_

#include <cstddef>
#include <string>

#include "bench/weft_perf/operation.h"
#include "bench/weft_perf/report.h"

namespace weft::perf {

// Below this, time goes into waiting for each other and not into memory.
inline constexpr size_t kLeastBoundBytes = 4096;

// The best bus bandwidth divided by the copy rate; 0 where there is no such bound (one rank,
// barrier). A copy reads and writes each byte, so an operation that needs a accesses per byte of
// S takes at least a S / (2 rate).
double BoundFraction(OperationKind kind, int ranks, bool symmetric, bool in_place);

// "# bound ..." for one line of the table; copy_rate in GB/s, of all ranks together.
std::string BoundHeader();
std::string BoundLine(const Row& row, const Operation& operation, int ranks, bool symmetric,
                      double copy_rate);

}  // namespace weft::perf

#endif  // WEFT_BENCH_WEFT_PERF_BOUND_H_
