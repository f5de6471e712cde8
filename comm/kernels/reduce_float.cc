// The kernels of floats but float8 of one instruction set.
#include "comm/kernels/reduce_isa.h"
#include "comm/kernels/reduce_tree.h"

namespace weft {
namespace {

template <typename Lanes>
ReduceKernel FindFloatOp(weft_op_t op) {
  switch (op) {
    case WEFT_SUM:
      return Reduce<Lanes, Sum>;
    case WEFT_PROD:
      return Reduce<Lanes, Product>;
    case WEFT_MAX:
      return Reduce<Lanes, Maximum>;
    case WEFT_MIN:
      return Reduce<Lanes, Minimum>;
    case WEFT_AVG:
      return AverageFloats<Lanes, Sum>;
    default:
      return nullptr;
  }
}

}  // namespace

template <>
ReduceKernel FindFloatKernel<kKernelIsa>(weft_dtype_t dtype, weft_op_t op) {
  switch (dtype) {
    case WEFT_FLOAT16:
      return FindFloatOp<HalfLanes<kWidth<float>>>(op);
    case WEFT_BFLOAT16:
      return FindFloatOp<BfloatLanes<kRegisterBytes / 4>>(op);
    case WEFT_FLOAT32:
      return FindFloatOp<FloatLanes<kWidth<float>>>(op);
    case WEFT_FLOAT64:
      return FindFloatOp<DoubleLanes<kWidth<double>>>(op);
    default:
      return nullptr;
  }
}

}  // namespace weft
