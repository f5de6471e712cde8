// Reductions: comm/device/element/reduce.h.
#include "comm/device/kernels/reduce_kernel.cuh"

WEFT_REDUCE_FLOAT16_KERNELS(WEFT_DEFINE_REDUCE)
