// The premul_sum kernels of one instruction set; kRegisterBytes 0 is plain C++. Internal linkage, see
// lanes.h.
#pragma once

#include "weft/types.h"

#include "comm/kernels/dtype.h"
#include "comm/kernels/lanes_float8.h"
#include "comm/kernels/reduce_tree.h"

namespace weft {
namespace {

template <typename Lanes>
void ReduceScaled(const ReduceArguments& arguments) {
  WEFT_CHECK(arguments.factors != nullptr);
  if constexpr (Lanes::kFloating) {
    const DefaultRounding rounding;
    ReduceSources<Lanes, ScaledSum>(arguments, 0);
  } else {
    ReduceSources<Lanes, ScaledSum>(arguments, 0);
  }
}

// Integers wrap, so their sign makes no difference.
template <int kRegisterBytes>
ReduceKernel FindPremulKernel(weft_dtype_t dtype, weft_op_t op) {
  constexpr int kBytes = kRegisterBytes == 0 ? 1 : kRegisterBytes;
  constexpr int kWords = kRegisterBytes == 0 ? 1 : kRegisterBytes / 4;
  constexpr int kLongs = kRegisterBytes == 0 ? 1 : kRegisterBytes / 8;
  if (op != kOpPremulSum) return nullptr;
  switch (dtype) {
    case WEFT_INT8:
    case WEFT_UINT8:
      return ReduceScaled<IntegerLanes<uint8_t, kBytes>>;
    case WEFT_INT32:
    case WEFT_UINT32:
      return ReduceScaled<IntegerLanes<uint32_t, kWords>>;
    case WEFT_INT64:
    case WEFT_UINT64:
      return ReduceScaled<IntegerLanes<uint64_t, kLongs>>;
    case WEFT_FLOAT16:
      return ReduceScaled<HalfLanes<kWords>>;
    case WEFT_BFLOAT16:
      return ReduceScaled<BfloatLanes<kRegisterBytes / 4>>;
    case WEFT_FLOAT32:
      return ReduceScaled<FloatLanes<kWords>>;
    case WEFT_FLOAT64:
      return ReduceScaled<DoubleLanes<kLongs>>;
    case WEFT_FLOAT8_E4M3:
      return ReduceScaled<Float8Lanes<E4m3, kRegisterBytes / 4, false>>;
    case WEFT_FLOAT8_E5M2:
      return ReduceScaled<Float8Lanes<E5m2, kRegisterBytes / 4, false>>;
    default:
      return nullptr;
  }
}

}  // namespace
}  // namespace weft
