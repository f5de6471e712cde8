// Reductions: comm/device/element/reduce.h.
#include "comm/device/kernels/reduce_kernel.cuh"

WEFT_REDUCE_FLOAT8_E5M2_KERNELS(WEFT_DEFINE_REDUCE)
