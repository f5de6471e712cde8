// The sum of squares of an interval, for the gradient norm and for LAMB and LARS: the same bits however the
// space was cut.
//
//   ExactSum sum;
//   int64_t nonfinite = AddSquares(isa, WEFT_BFLOAT16, gradients, count, first_index, sum);
//   ... all_reduce sum.words() and nonfinite as int64 sums: exact, so the order is of no matter ...
//   const double norm = std::sqrt(ExactSum(words).Value());
//
// Blocks of kSquareBlock elements, counted from the space's element 0, are summed in float64 in one order
// (square_blocks.h); the sums of blocks go into the ExactSum. So the result does not depend on the
// instruction set, on threads, ranks or presets, provided that every cut is at a multiple of kSquareBlock.
// Squares of float32 are exact in float64 and cannot overflow; the error is some 20 roundings of positive
// numbers, 1e-15 of the sum at most. float64 is rounded to float32 first, 3e-8 of the norm at most: what float32 cannot
// hold, no optimizer can use.
//
// Thread-safety: pure but for `sum`, which one thread may add to at a time. Several threads take intervals that begin at
// multiples of kSquareBlock, with a sum each; then sum.Merge(other), in any order.
#pragma once

#include <cstddef>
#include <cstdint>

#include "weft/types.h"

#include "comm/kernels/isa.h"
#include "shard/optimizer/exact_sum.h"
#include "shard/optimizer/optimizer_isa.h"

namespace weft {

// Adds the squares of `count` float32, bfloat16, float16 or float64, of any alignment, to `sum`; `first_index` is
// the index of the first in its space. Returns how many are infinite or NaN as float32 (found_inf is that this is
// not 0); the sum is then infinite or NaN.
int64_t AddSquares(Isa isa, weft_dtype_t dtype, const void* values, size_t count,
                   uint64_t first_index, ExactSum& sum);

}  // namespace weft
