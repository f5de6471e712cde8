// Reductions in stages: what is summed in one place travels on, unrounded, to where the rest is summed.
//
//   // An island sums each of its tree pieces (comm/schedule/tree_pieces.h): bfloat16 in, float32 out.
//   FindReduceKernel(isa, WEFT_BFLOAT16, WEFT_AVG, ReduceStage::kFirst)({ranks, 4, &piece, 1, count, 0});
//   // Whoever has all the pieces sums those: float32 in, divided by the size of the group, rounded once, bfloat16 out.
//   FindReduceKernel(isa, WEFT_BFLOAT16, WEFT_AVG, ReduceStage::kLast)(
//       {pieces, piece_count, &result, 1, count, group_size, nullptr, tree.merges.data()});
//
// The result has the bits of a whole reduction over all ranks, for every type and operation.
//
//   stage    sources      result       what it does
//   kWhole   type         type         the whole reduction, as FindReduceKernel without a stage
//   kFirst   type         accumulator  sums T(source_count), the canonical tree; premul_sum multiplies here
//   kMiddle  accumulator  accumulator  sums what other stages have summed, where a schedule joins it on the way
//   kLast    accumulator  type         sums what is left; avg divides by `divisor`; rounds
//
// The accumulator's type is AccumulatorDtype: float32 for sums, products, avg and premul_sum of float8, float16
// and bfloat16; everywhere else the type itself. In memory an accumulator is the true value, whatever registers
// hold, and every NaN is the one quiet NaN of its type. Integers, and min and max of any type, have no accumulator
// apart: their stages are whole reductions, except that avg divides and premul_sum multiplies only once.
//
// A tree piece of one rank is that rank's contribution, which travels in its type. Before kMiddle or kLast, kFirst
// of that single source makes an accumulator of it. This changes no value; for premul_sum it is the multiplication.
//
// ReduceArguments::merges is the tree of kMiddle and kLast. merges[i] says how often, once source i has been taken, the
// last two results are replaced by their sum, left + right: {0, 1, 0, 2} is (s0+s1) + (s2+s3). Any binary tree can be
// written so. Without `merges` the tree is T(source_count), by quicker loops. kWhole and kFirst do not look
// at it; nor do reductions whose result is the same in any order.
//
// In kLast a destination may be one of the sources (same address), although its elements may be smaller. In kFirst
// it may not, unless the accumulator has the type. A user's function (custom_op.h) has no stages, as its values stay
// in the type; it follows `merges`.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>

#include "weft/types.h"

#include "comm/kernels/dtype.h"
#include "comm/kernels/isa.h"
#include "comm/kernels/reduce_arguments.h"

namespace weft {

enum class ReduceStage : uint8_t { kWhole, kFirst, kMiddle, kLast };

// Whether the operation rounds between its sources, so that the result depends on the order.
constexpr bool RoundsOnTheWay(weft_dtype_t dtype, weft_op_t op) {
  return IsFloatingDtype(dtype) &&
         (op == WEFT_SUM || op == WEFT_PROD || op == WEFT_AVG || op == kOpPremulSum);
}

// The type in which a reduction stands between its stages.
constexpr weft_dtype_t AccumulatorDtype(weft_dtype_t dtype, weft_op_t op) {
  return RoundsOnTheWay(dtype, op) && DtypeSize(dtype) < 4 ? WEFT_FLOAT32 : dtype;
}

// The kernel of one stage of (dtype, op); nullptr where FindReduceKernel without a stage has none. Not a table but
// a few switches: who makes many calls keeps it.
ReduceKernel FindReduceKernel(Isa isa, weft_dtype_t dtype, weft_op_t op, ReduceStage stage);

}  // namespace weft
