// Plain C++ for any CPU; what the other instruction sets are compared with.
#include "comm/kernels/reduce_bits.h"
#include "comm/kernels/reduce_isa.h"

namespace weft {

ReduceKernel FindBitsKernelScalar(weft_dtype_t dtype, weft_op_t op) {
  return FindBitsKernel<0>(dtype, op);
}

}  // namespace weft
