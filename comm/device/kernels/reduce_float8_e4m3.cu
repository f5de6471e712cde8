// Reductions: comm/device/element/reduce.h.
#include "comm/device/kernels/reduce_kernel.cuh"

WEFT_REDUCE_FLOAT8_E4M3_KERNELS(WEFT_DEFINE_REDUCE)
