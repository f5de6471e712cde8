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

// min_loc and max_loc: the same for all, see reduce_loc.cc.
ReduceKernel FindLocKernel(weft_dtype_t dtype, weft_op_t op);

}  // namespace weft
