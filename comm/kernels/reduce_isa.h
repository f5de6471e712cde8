// What each instruction set's translation units offer to the table in reduce.cc: the kernel of
// (dtype, op), or nullptr. Only to be called on a CPU that has the instruction set.
#pragma once

#include "weft/types.h"

#include "comm/kernels/reduce_arguments.h"

namespace weft {

ReduceKernel FindFloatKernelScalar(weft_dtype_t dtype, weft_op_t op);
ReduceKernel FindFloat8KernelScalar(weft_dtype_t dtype, weft_op_t op);
ReduceKernel FindIntegerKernelScalar(weft_dtype_t dtype, weft_op_t op);
ReduceKernel FindBitsKernelScalar(weft_dtype_t dtype, weft_op_t op);
ReduceKernel FindPremulKernelScalar(weft_dtype_t dtype, weft_op_t op);
#if defined(__x86_64__)
ReduceKernel FindFloatKernelAvx2(weft_dtype_t dtype, weft_op_t op);
ReduceKernel FindFloat8KernelAvx2(weft_dtype_t dtype, weft_op_t op);
ReduceKernel FindIntegerKernelAvx2(weft_dtype_t dtype, weft_op_t op);
ReduceKernel FindBitsKernelAvx2(weft_dtype_t dtype, weft_op_t op);
ReduceKernel FindPremulKernelAvx2(weft_dtype_t dtype, weft_op_t op);
ReduceKernel FindFloatKernelAvx512(weft_dtype_t dtype, weft_op_t op);
ReduceKernel FindFloat8KernelAvx512(weft_dtype_t dtype, weft_op_t op);
ReduceKernel FindIntegerKernelAvx512(weft_dtype_t dtype, weft_op_t op);
ReduceKernel FindBitsKernelAvx512(weft_dtype_t dtype, weft_op_t op);
ReduceKernel FindPremulKernelAvx512(weft_dtype_t dtype, weft_op_t op);
#endif

// min_loc and max_loc: the same for all, see reduce_loc.cc.
ReduceKernel FindLocKernel(weft_dtype_t dtype, weft_op_t op);

}  // namespace weft
