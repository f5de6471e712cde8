// Inputs of --repro: real numbers whose reduction shows in which order it was done.
//
// Floating types: mantissas are random in all bits, and at half of the elements one rank adds a number
// so large that the others' low bits are lost, which another rank takes away again. What is left depends
// on who was added in between. A few elements are subnormal, which an instruction set may flush.
// Factors of products are close to 1. Integers have all bits; their results depend on no order.
//
// An element depends on key.seed, key.type, key.reduction, key.ranks, its rank and its index, and not
// on how many elements there are, so the result of a small size is the beginning of a large one's.
//
// Thread-safety: pure.
#ifndef WEFT_BENCH_WEFT_PERF_REAL_VALUES_H_
#define WEFT_BENCH_WEFT_PERF_REAL_VALUES_H_

#include <cstddef>
#include <cstdint>

#include "bench/weft_perf/exact_values.h"

namespace weft::perf {

// The bits of what `rank` contributes at `index`.
uint64_t RealBits(const DataKey& key, int rank, size_t index);

}  // namespace weft::perf

#endif  // WEFT_BENCH_WEFT_PERF_REAL_VALUES_H_
