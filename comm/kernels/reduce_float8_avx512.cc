// Compiled with -mavx512f,bw,vl,dq: nothing here may be called on a CPU without them.
#include "comm/kernels/reduce_float8.h"
#include "comm/kernels/reduce_isa.h"

namespace weft {

ReduceKernel FindFloat8KernelAvx512(weft_dtype_t dtype, weft_op_t op) {
  return FindFloat8Kernel<64>(dtype, op);
}

}  // namespace weft
