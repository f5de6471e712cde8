// Compiled with -mavx512f,bw,vl,dq: nothing here may be called on a CPU without them.
#include "comm/kernels/reduce_integer.h"
#include "comm/kernels/reduce_isa.h"

namespace weft {

ReduceKernel FindIntegerKernelAvx512(weft_dtype_t dtype, weft_op_t op) {
  return FindIntegerKernel<64>(dtype, op);
}

}  // namespace weft
