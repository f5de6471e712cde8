// Compiled with -mavx512f,bw,vl,dq: nothing here may be called on a CPU without them.
#include "comm/kernels/reduce_isa.h"
#include "comm/kernels/reduce_premul.h"

namespace weft {

ReduceKernel FindPremulKernelAvx512(weft_dtype_t dtype, weft_op_t op) {
  return FindPremulKernel<64>(dtype, op);
}

}  // namespace weft
