// Compiled with -mavx512f,bw,vl,dq: nothing here may be called on a CPU without them.
#include "comm/kernels/reduce_bits.h"
#include "comm/kernels/reduce_isa.h"

namespace weft {

ReduceKernel FindBitsKernelAvx512(weft_dtype_t dtype, weft_op_t op) {
  return FindBitsKernel<64>(dtype, op);
}

}  // namespace weft
