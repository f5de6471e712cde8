// What is compiled once for each instruction set, for the table in reduce.cc: the kernel of (dtype, op),
// or nullptr. Only to be called on a CPU that has the instruction set.
#pragma once

#include "weft/types.h"

#include "comm/kernels/isa.h"
#include "comm/kernels/reduce_arguments.h"

namespace weft {

template <Isa kIsa>
ReduceKernel FindFloatKernel(weft_dtype_t dtype, weft_op_t op);
template <Isa kIsa>
ReduceKernel FindFloat8Kernel(weft_dtype_t dtype, weft_op_t op);
template <Isa kIsa>
ReduceKernel FindIntegerKernel(weft_dtype_t dtype, weft_op_t op);
template <Isa kIsa>
ReduceKernel FindBitsKernel(weft_dtype_t dtype, weft_op_t op);
template <Isa kIsa>
ReduceKernel FindPremulKernel(weft_dtype_t dtype, weft_op_t op);

// The stages of reduce_stage.h that are not one of the kernels above. Of the narrow types float8, float16 and
// bfloat16: to float32 and back.
template <Isa kIsa>
ReduceKernel FindFirstKernel(weft_dtype_t dtype, weft_op_t op);
template <Isa kIsa>
ReduceKernel FindLastKernel(weft_dtype_t dtype, weft_op_t op);
// float32 and float64: what FindFloatKernel gives, along any tree.
template <Isa kIsa>
ReduceKernel FindMergesKernel(weft_dtype_t dtype, weft_op_t op);

// min_loc and max_loc: the same for all, see reduce_loc.cc.
ReduceKernel FindLocKernel(weft_dtype_t dtype, weft_op_t op);

}  // namespace weft
