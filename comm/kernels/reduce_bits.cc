// bit_and, bit_or and bit_xor of integers, and all reductions of booleans, of one instruction set.
#include "comm/kernels/reduce_isa.h"
#include "comm/kernels/reduce_tree.h"

namespace weft {
namespace {

template <typename Lanes>
ReduceKernel FindBitOp(weft_op_t op) {
  switch (op) {
    case WEFT_BIT_AND:
      return Reduce<Lanes, BitAnd>;
    case WEFT_BIT_OR:
      return Reduce<Lanes, BitOr>;
    case WEFT_BIT_XOR:
      return Reduce<Lanes, BitXor>;
    default:
      return nullptr;
  }
}

// On 0 and 1 the minimum is "and", and the maximum is "or".
template <typename Lanes>
ReduceKernel FindBoolOp(weft_op_t op) {
  switch (op) {
    case WEFT_SUM:
    case WEFT_MAX:
      return FindBitOp<Lanes>(WEFT_BIT_OR);
    case WEFT_PROD:
    case WEFT_MIN:
      return FindBitOp<Lanes>(WEFT_BIT_AND);
    default:
      return FindBitOp<Lanes>(op);
  }
}

}  // namespace

template <>
ReduceKernel FindBitsKernel<kKernelIsa>(weft_dtype_t dtype, weft_op_t op) {
  switch (dtype) {
    case WEFT_BOOL:
      return FindBoolOp<BoolLanes<kWidth<uint8_t>>>(op);
    case WEFT_INT8:
    case WEFT_UINT8:
      return FindBitOp<Integers<uint8_t>>(op);
    case WEFT_INT32:
    case WEFT_UINT32:
      return FindBitOp<Integers<uint32_t>>(op);
    case WEFT_INT64:
    case WEFT_UINT64:
      return FindBitOp<Integers<uint64_t>>(op);
    default:
      return nullptr;
  }
}

}  // namespace weft
