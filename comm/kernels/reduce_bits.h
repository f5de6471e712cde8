// bit_and, bit_or and bit_xor of integers, and all reductions of booleans, of one instruction set;
// kRegisterBytes 0 is plain C++. Internal linkage, see lanes.h.
#pragma once

#include "weft/types.h"

#include "comm/kernels/reduce_tree.h"

namespace weft {
namespace {

template <typename Lanes, typename Op>
void ReduceBits(const ReduceArguments& arguments) {
  ReduceSources<Lanes, Op>(arguments, 0);
}

template <typename Lanes>
ReduceKernel FindBitOp(weft_op_t op) {
  switch (op) {
    case WEFT_BIT_AND:
      return ReduceBits<Lanes, BitAnd>;
    case WEFT_BIT_OR:
      return ReduceBits<Lanes, BitOr>;
    case WEFT_BIT_XOR:
      return ReduceBits<Lanes, BitXor>;
    default:
      return nullptr;
  }
}

// Of 0 and 1, the least is "and" and the largest is "or".
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

template <int kRegisterBytes>
ReduceKernel FindBitsKernel(weft_dtype_t dtype, weft_op_t op) {
  constexpr int kBytes = kRegisterBytes == 0 ? 1 : kRegisterBytes;
  constexpr int kWords = kRegisterBytes == 0 ? 1 : kRegisterBytes / 4;
  constexpr int kLongs = kRegisterBytes == 0 ? 1 : kRegisterBytes / 8;
  switch (dtype) {
    case WEFT_BOOL:
      return FindBoolOp<BoolLanes<kBytes>>(op);
    case WEFT_INT8:
    case WEFT_UINT8:
      return FindBitOp<IntegerLanes<uint8_t, kBytes>>(op);
    case WEFT_INT32:
    case WEFT_UINT32:
      return FindBitOp<IntegerLanes<uint32_t, kWords>>(op);
    case WEFT_INT64:
    case WEFT_UINT64:
      return FindBitOp<IntegerLanes<uint64_t, kLongs>>(op);
    default:
      return nullptr;
  }
}

}  // namespace
}  // namespace weft
