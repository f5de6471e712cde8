// The float8 kernels of one instruction set. Apart from reduce_float.cc because of the time that they take
// to compile.
#include "comm/kernels/lanes_float8.h"
#include "comm/kernels/reduce_isa.h"
#include "comm/kernels/reduce_tree.h"

namespace weft {
namespace {

template <typename Format>
ReduceKernel FindFloat8Op(weft_op_t op) {
  // A sum of scaled values is the scaled sum, bit by bit: nothing here comes near the ends of float32.
  // Its average has to be formed on float32's own grid, where sums are.
  using AverageLanes = Float8Lanes<Format, kRegisterBytes / 4, true>;
  switch (op) {
    case WEFT_SUM:
#if defined(__AVX2__)
      return Reduce<Float8SumLanes<Format, kRegisterBytes / 4>, Sum>;
#else
      return Reduce<AverageLanes, Sum>;
#endif
    case WEFT_PROD:
      return Reduce<Float8Lanes<Format, kRegisterBytes / 4, false>, Product>;
    // min and max compare bytes and need no floating-point arithmetic.
    case WEFT_MAX:
      return Reduce<Float8KeyLanes<Format, false, kWidth<uint8_t>>, Maximum>;
    case WEFT_MIN:
      return Reduce<Float8KeyLanes<Format, true, kWidth<uint8_t>>, Minimum>;
    case WEFT_AVG:
      return AverageFloats<AverageLanes, RareSum>;
    default:
      return nullptr;
  }
}

}  // namespace

template <>
ReduceKernel FindFloat8Kernel<kKernelIsa>(weft_dtype_t dtype, weft_op_t op) {
  switch (dtype) {
    case WEFT_FLOAT8_E4M3:
      return FindFloat8Op<E4m3>(op);
    case WEFT_FLOAT8_E5M2:
      return FindFloat8Op<E5m2>(op);
    default:
      return nullptr;
  }
}

}  // namespace weft
