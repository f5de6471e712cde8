// The float8 kernels of one instruction set; kRegisterBytes 0 is plain C++. Apart from reduce_float.h
// because of the time that they take to compile. Internal linkage, see lanes.h.
#pragma once

#include <type_traits>

#include "weft/types.h"

#include "comm/kernels/lanes_float8.h"
#include "comm/kernels/reduce_float.h"

namespace weft {
namespace {

// min and max compare bytes and need no floating-point arithmetic.
template <typename Format, bool kMinimum, int kRegisterBytes>
void Float8Extreme(const ReduceArguments& arguments) {
  using Lanes = Float8KeyLanes<Format, kMinimum, kRegisterBytes == 0 ? 1 : kRegisterBytes>;
  using Op = std::conditional_t<kMinimum, Minimum, Maximum>;
  ReduceSources<Lanes, Op>(arguments, 0);
}

template <typename Format, int kRegisterBytes>
ReduceKernel FindFloat8Op(weft_op_t op) {
  // A sum of scaled values is the scaled sum, bit by bit: nothing here comes near the ends of float32.
  // Its average has to be formed on float32's own grid, where sums are.
  using AverageLanes = Float8Lanes<Format, kRegisterBytes / 4, true>;
  switch (op) {
    case WEFT_SUM:
#if defined(__AVX2__)
      return ReduceFloats<Float8SumLanes<Format, kRegisterBytes / 4>, Sum>;
#else
      return ReduceFloats<AverageLanes, Sum>;
#endif
    case WEFT_PROD:
      return ReduceFloats<Float8Lanes<Format, kRegisterBytes / 4, false>, Product>;
    case WEFT_MAX:
      return Float8Extreme<Format, false, kRegisterBytes>;
    case WEFT_MIN:
      return Float8Extreme<Format, true, kRegisterBytes>;
    case WEFT_AVG:
      return AverageFloats<AverageLanes, RareSum>;
    default:
      return nullptr;
  }
}

template <int kRegisterBytes>
ReduceKernel FindFloat8Kernel(weft_dtype_t dtype, weft_op_t op) {
  switch (dtype) {
    case WEFT_FLOAT8_E4M3:
      return FindFloat8Op<E4m3, kRegisterBytes>(op);
    case WEFT_FLOAT8_E5M2:
      return FindFloat8Op<E5m2, kRegisterBytes>(op);
    default:
      return nullptr;
  }
}

}  // namespace
}  // namespace weft
