// The floating-point kernels of one instruction set; kRegisterBytes 0 is plain C++.
// Internal linkage, see lanes.h.
#pragma once

#include "weft/types.h"

#include "comm/kernels/reduce_tree.h"

namespace weft {
namespace {

template <typename Lanes, typename Op>
void ReduceFloats(const ReduceArguments& arguments) {
  const DefaultRounding rounding;
  ReduceSources<Lanes, Op>(arguments, 0);
}

template <typename Lanes, typename Op = Sum>
void AverageFloats(const ReduceArguments& arguments) {
  WEFT_CHECK(arguments.divisor > 0);
  const DefaultRounding rounding;
  ReduceSources<Lanes, Op>(arguments, arguments.divisor);
}

template <typename Lanes>
ReduceKernel FindFloatOp(weft_op_t op) {
  switch (op) {
    case WEFT_SUM:
      return ReduceFloats<Lanes, Sum>;
    case WEFT_PROD:
      return ReduceFloats<Lanes, Product>;
    case WEFT_MAX:
      return ReduceFloats<Lanes, Maximum>;
    case WEFT_MIN:
      return ReduceFloats<Lanes, Minimum>;
    case WEFT_AVG:
      return AverageFloats<Lanes>;
    default:
      return nullptr;
  }
}

template <int kRegisterBytes>
ReduceKernel FindFloatKernel(weft_dtype_t dtype, weft_op_t op) {
  constexpr int kFloats = kRegisterBytes == 0 ? 1 : kRegisterBytes / 4;
  constexpr int kDoubles = kRegisterBytes == 0 ? 1 : kRegisterBytes / 8;
  switch (dtype) {
    case WEFT_FLOAT16:
      return FindFloatOp<HalfLanes<kFloats>>(op);
    case WEFT_BFLOAT16:
      return FindFloatOp<BfloatLanes<kRegisterBytes / 4>>(op);
    case WEFT_FLOAT32:
      return FindFloatOp<FloatLanes<kFloats>>(op);
    case WEFT_FLOAT64:
      return FindFloatOp<DoubleLanes<kDoubles>>(op);
    default:
      return nullptr;
  }
}

}  // namespace
}  // namespace weft
