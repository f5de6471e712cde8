// The premul_sum kernels of one instruction set.
#include "comm/kernels/dtype.h"
#include "comm/kernels/lanes_float8.h"
#include "comm/kernels/reduce_isa.h"
#include "comm/kernels/reduce_tree.h"

namespace weft {

// Integers wrap, so their sign makes no difference.
template <>
ReduceKernel FindPremulKernel<kKernelIsa>(weft_dtype_t dtype, weft_op_t op) {
  if (op != kOpPremulSum) return nullptr;
  switch (dtype) {
    case WEFT_INT8:
    case WEFT_UINT8:
      return Reduce<Integers<uint8_t>, ScaledSum>;
    case WEFT_INT32:
    case WEFT_UINT32:
      return Reduce<Integers<uint32_t>, ScaledSum>;
    case WEFT_INT64:
    case WEFT_UINT64:
      return Reduce<Integers<uint64_t>, ScaledSum>;
    case WEFT_FLOAT16:
      return Reduce<HalfLanes<kWidth<float>>, ScaledSum>;
    case WEFT_BFLOAT16:
      return Reduce<BfloatLanes<kRegisterBytes / 4>, ScaledSum>;
    case WEFT_FLOAT32:
      return Reduce<FloatLanes<kWidth<float>>, ScaledSum>;
    case WEFT_FLOAT64:
      return Reduce<DoubleLanes<kWidth<double>>, ScaledSum>;
    case WEFT_FLOAT8_E4M3:
      return Reduce<Float8Lanes<E4m3, kRegisterBytes / 4, false>, ScaledSum>;
    case WEFT_FLOAT8_E5M2:
      return Reduce<Float8Lanes<E5m2, kRegisterBytes / 4, false>, ScaledSum>;
    default:
      return nullptr;
  }
}

}  // namespace weft
