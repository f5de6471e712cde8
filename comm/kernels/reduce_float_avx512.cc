// Compiled with -mavx512f,bw,vl,dq: nothing here may be called on a CPU without them.
#include "comm/kernels/reduce_float.h"
#include "comm/kernels/reduce_isa.h"

namespace weft {

ReduceKernel FindFloatKernelAvx512(weft_dtype_t dtype, weft_op_t op) {
  return FindFloatKernel<64>(dtype, op);
}

}  // namespace weft
