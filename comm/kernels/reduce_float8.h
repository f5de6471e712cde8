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
  using Lanes = Float8Lanes<Format, kRegisterBytes / 4>;
  switch (op) {
    case WEFT_SUM:
      return ReduceFloats<Lanes, Sum>;
    case WEFT_PROD:
      return ReduceFloats<Lanes, Product>;
    case WEFT_MAX:
      return Float8Extreme<Format, false, kRegisterBytes>;
    case WEFT_MIN:
      return Float8Extreme<Format, true, kRegisterBytes>;
    case WEFT_AVG:
      return AverageFloats<Lanes>;
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
