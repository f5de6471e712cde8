// Plain C++ for any CPU; what the other instruction sets are compared with.
#include "comm/kernels/reduce_float8.h"
#include "comm/kernels/reduce_isa.h"

namespace weft {

ReduceKernel FindFloat8KernelScalar(weft_dtype_t dtype, weft_op_t op) {
  return FindFloat8Kernel<0>(dtype, op);
}

}  // namespace weft
