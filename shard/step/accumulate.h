// Adds one gradient to another.
//
// The sum of two is a canonical reduction like any other: float16 and bfloat16 are added in float32
// and rounded once, to nearest even, so the bits do not depend on the instruction set.
// Thread-safety: pure; ranges that do not overlap may be added to from several threads.
#pragma once

#include <cstddef>

#include "weft/types.h"

#include "comm/kernels/reduce.h"

namespace weft {

// into[i] = into[i] + from[i]. `dtype` is a floating-point type; `from` may have any alignment.
inline void AddTo(void* into, const void* from, size_t count, weft_dtype_t dtype, Isa isa) {
  const void* const sources[] = {into, from};
  void* const destinations[] = {into};
  FindReduceKernel(isa, dtype, WEFT_SUM)({.sources = sources,
                                          .source_count = 2,
                                          .destinations = destinations,
                                          .destination_count = 1,
                                          .count = count,
                                          .divisor = 1});
}

}  // namespace weft
