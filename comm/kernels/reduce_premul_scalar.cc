// Plain C++ for any CPU; what the other instruction sets are compared with.
#include "comm/kernels/reduce_isa.h"
#include "comm/kernels/reduce_premul.h"

namespace weft {

ReduceKernel FindPremulKernelScalar(weft_dtype_t dtype, weft_op_t op) {
  return FindPremulKernel<0>(dtype, op);
}

}  // namespace weft
