#include "comm/kernels/reduce_stage.h"

#include "comm/kernels/reduce.h"
#include "comm/kernels/reduce_isa.h"

namespace weft {
namespace {

// What is left of an operation in a stage: only the first one scales, only the last one divides.
weft_op_t OpOfStage(weft_op_t op, ReduceStage stage) {
  const bool first = stage == ReduceStage::kFirst;
  const bool last = stage == ReduceStage::kLast;
  if (op == WEFT_AVG && !last) return WEFT_SUM;
  return op == kOpPremulSum && !first ? WEFT_SUM : op;
}

template <Isa kIsa>
ReduceKernel FindRoundingStage(weft_dtype_t dtype, weft_op_t op, ReduceStage stage) {
  const weft_dtype_t accumulator = AccumulatorDtype(dtype, op);
  const weft_op_t part = OpOfStage(op, stage);
  if (stage == ReduceStage::kMiddle) return FindMergesKernel<kIsa>(accumulator, part);
  if (stage == ReduceStage::kLast) {
    return accumulator == dtype ? FindMergesKernel<kIsa>(dtype, part)
                                : FindLastKernel<kIsa>(dtype, part);
  }
  return accumulator == dtype ? FindReduceKernel(kIsa, dtype, part)
                              : FindFirstKernel<kIsa>(dtype, part);
}

}  // namespace

ReduceKernel FindReduceKernel(Isa isa, weft_dtype_t dtype, weft_op_t op, ReduceStage stage) {
  if (stage == ReduceStage::kWhole || !HasReduction(dtype, op)) {
    return FindReduceKernel(isa, dtype, op);
  }
  if (!RoundsOnTheWay(dtype, op)) return FindReduceKernel(isa, dtype, OpOfStage(op, stage));
  return ForIsa(isa, [=]<Isa kIsa>() { return FindRoundingStage<kIsa>(dtype, op, stage); });
}

}  // namespace weft
