// Compiled with -mavx2 -mf16c: nothing here may be called on a CPU without them.
#include "comm/kernels/reduce_isa.h"
#include "comm/kernels/reduce_premul.h"

namespace weft {

ReduceKernel FindPremulKernelAvx2(weft_dtype_t dtype, weft_op_t op) {
  return FindPremulKernel<32>(dtype, op);
}

}  // namespace weft
