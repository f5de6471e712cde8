// The kernels of optimizers by name; see comm/device/kernels/kernel_list.h.
#pragma once

// clang-format off
#define WEFT_UPDATE_OF(X, name, Step, Update)      \
  X(weft_##name##_float32, Step, Update, Float32)   \
  X(weft_##name##_float64, Step, Update, Float64)   \
  X(weft_##name##_bfloat16, Step, Update, Bfloat16) \
  X(weft_##name##_float16, Step, Update, Float16)

#define WEFT_UPDATE_KERNELS(X)                         \
  WEFT_UPDATE_OF(X, adamw, AdamWStep, UpdateByAdamW)   \
  WEFT_UPDATE_OF(X, sgd, SgdStep, UpdateBySgd)         \
  WEFT_UPDATE_OF(X, lion, LionStep, UpdateByLion)      \
  WEFT_UPDATE_OF(X, lars, LarsStep, UpdateByLars)

#define WEFT_LAMB_MOMENTS_KERNELS(X)        \
  X(weft_lamb_moments_float32, Float32)     \
  X(weft_lamb_moments_float64, Float64)     \
  X(weft_lamb_moments_bfloat16, Bfloat16)   \
  X(weft_lamb_moments_float16, Float16)
// clang-format on
